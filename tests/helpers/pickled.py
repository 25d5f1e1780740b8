"""What a hostile pickle holds."""


class Calls:
    """Pickles as a call of the function, which unpickling makes."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call
