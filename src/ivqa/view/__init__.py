"""The local web app `ivqa view`: runs and their reports, models to ask, and annotation."""
