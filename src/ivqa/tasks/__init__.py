"""Tasks of the commands: one file for each task, named like its file in conf/task."""
