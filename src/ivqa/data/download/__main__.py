"""Downloads official archives: python -m ivqa.data.download."""

import sys

from ivqa.data.download.download import main

if __name__ == "__main__":
    sys.exit(main())
