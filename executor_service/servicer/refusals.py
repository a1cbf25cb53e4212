"""What a caller is told when a box could not start a command."""

from executor_service.errors import PathInvalid, StartRefused
from services.errors import AlreadyExists, HermesError, InvalidArgument, LimitExceeded, Unavailable

_PATHS = frozenset({"NOT_FOUND", "PERMISSION_DENIED", "NOT_EXECUTABLE"})
_LIMITS = frozenset({"NO_PROCESSES", "TOO_MANY_COMMANDS"})


def start_refused(why: StartRefused) -> HermesError:
    """The answer; the command never ran."""
    message = f"the command was not started: {why}"
    if why.code in _PATHS:
        return PathInvalid(message, fields={"command": str(why)})
    if why.code in _LIMITS:
        return LimitExceeded(message)
    if why.code == "CONFLICT":
        return AlreadyExists(message)
    if why.code == "CANCELLED":
        return Unavailable(message)
    return InvalidArgument(message, fields={"command": str(why)})
