"""`python -m ivqa doctor [DATA_ROOT]`: checks the installation; see `ivqa.tasks.doctor`."""

import sys

from ivqa.tasks.doctor import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
