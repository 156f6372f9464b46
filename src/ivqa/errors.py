"""The base class of errors that the user can fix, and what other errors say."""

import re


class UserError(ValueError):
    """The configuration, the data or a file is wrong, and the user can fix it.

    The message is one sentence: what is wrong, where (key, file or id) and what to do. The commands
    print the message without a traceback. Every other exception is a bug in ivqa and keeps its
    traceback. A function whose caller passes wrong shapes or lengths therefore raises a plain
    ValueError.
    """


class DataError(UserError):
    """A data set is incomplete or wrong; the message names file, id and field."""


class LimitReached(UserError):
    """A limit of requests or of money is reached; what was answered before is kept."""


def reason_of(error: Exception) -> str:
    """What an error of a library says, in one line of at most 300 characters for the user.

    Addresses of objects in memory are left out, and the advice of PyTorch to load the file with
    `weights_only=False`, which would run code in it.

    >>> reason_of(OSError("cannot identify image file <_io.BytesIO object at 0x7fa4>"))
    'cannot identify image file'
    """
    text = " ".join(str(error).split())
    if "weights_only" in text:
        found = re.search(r"GLOBAL (\S+)", text)
        what = found.group(1) if found else "other objects than tensors and plain containers"
        return f"it holds {what}, which could run code"
    text = re.sub(r" *<[\w.]+ object at 0x[0-9a-fA-F]+>", "", text)
    return text[:300].rstrip(".") or type(error).__name__
