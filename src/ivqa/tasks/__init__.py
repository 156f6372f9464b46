"""What a command does: one file a task, named like its file in conf/task."""
