"""What tells a fault of the user's input from a bug in ivqa."""


class UserError(ValueError):
    """The configuration, the data or a file is wrong, and the user can correct it.

    The message is one sentence: what is wrong, where (key, file or id) and what to do. The commands
    show it alone. Every other exception is a bug and keeps its traceback, so a function whose
    caller breaks a contract (shapes, lengths, order of calls) raises plain ValueError.
    """
