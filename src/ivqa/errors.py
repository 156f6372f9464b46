"""The base class of errors that the user can fix."""


class UserError(ValueError):
    """The configuration, the data or a file is wrong, and the user can fix it.

    The message is one sentence: what is wrong, where (key, file or id) and what to do. The commands
    print the message without a traceback. Every other exception is a bug in ivqa and keeps its
    traceback. A function whose caller passes wrong shapes or lengths therefore raises a plain
    ValueError.
    """
