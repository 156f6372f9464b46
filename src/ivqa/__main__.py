"""`python -m ivqa` is the command `ivqa`."""

from ivqa.console import main

if __name__ == "__main__":
    main()
