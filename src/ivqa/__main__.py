"""`python -m ivqa doctor [DATA_ROOT]`: checks the installation; see `ivqa.tasks.doctor`."""

import signal
import sys

from ivqa.tasks.doctor import main

if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # doctor | head ends without a message
    sys.exit(main(sys.argv[1:]))
