"""Tasks of the commands; `_target_` of a file in conf/task names the function."""
