"""How a command runs: command line, checks, data, trained models, training, loggers."""
