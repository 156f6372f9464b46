"""Downloads official archives: python -m ivqa.data.download."""

from ivqa.data.download.download import main

main()
