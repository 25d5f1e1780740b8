"""What must not warn."""

import warnings
from contextlib import contextmanager


@contextmanager
def no_warnings():
    """Nothing within may warn. A file that is garbage by then is another test's: whatever runs when it is collected
    would be blamed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def silent(function, *arguments):
    with no_warnings():
        return function(*arguments)
