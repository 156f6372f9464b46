"""How a task runs: data, features, trained models, fitting, checkpoints, the run directory."""
