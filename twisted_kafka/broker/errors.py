"""Why a broker does not start."""


class StartError(Exception):
    """The broker cannot start, for a reason that the operator can put right. The text is one line."""


class StartInterruptedError(StartError):
    """The start was interrupted."""
