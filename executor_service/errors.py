"""The executor's error tree.

ExecutorError
├── BackendError
│   ├── BackendUnavailable    this machine cannot run the backend; the message says what to do
│   ├── BoxCreateFailed       a box could not be made
│   ├── BoxLost               the box is gone: died, was removed, or cannot be reached again
│   └── EngineRefused         a container engine answered with an error; kept inside its backend
├── LinkClosed                the channel to a box ended; connect again and resume by offset
│   └── LinkRefused           the box does not take this executor: stale epoch, other version
├── BoxPoisoned               the box's supervisor broke the protocol; only that box is given up
├── StartRefused              the box could not start a command, which therefore never ran
└── FileRefused               the box could not do what was asked with a file
"""


class ExecutorError(Exception):
    """Anything that the executor raises on purpose."""


class BackendError(ExecutorError):
    """A backend could not do what was asked of it."""


class BackendUnavailable(BackendError):
    """The backend cannot run on this machine; the message says what to do about it."""


class BoxCreateFailed(BackendError):
    """The backend is there, but this box could not be made."""


class BoxLost(BackendError):
    """The box no longer exists or can never be reached again."""


class EngineRefused(BackendError):
    """A container engine answered a request with an error; backends turn it into one of theirs."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LinkClosed(ExecutorError):
    """The channel to the box's supervisor ended; commands in the box go on."""


class LinkRefused(LinkClosed):
    """The box does not take this executor; reason is STALE_EPOCH, WRONG_BOX and the like."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the box refused the connection: {reason}")
        self.reason = reason


class BoxPoisoned(ExecutorError):
    """The box's supervisor broke the protocol, so nothing it says is believed any more."""


class StartRefused(ExecutorError):
    """The box could not start a command, which therefore never ran."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """NOT_FOUND, PERMISSION_DENIED, NOT_EXECUTABLE, CONFLICT and the like."""


class FileRefused(ExecutorError):
    """The box could not do what was asked with a file."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """NOT_FOUND, NOT_A_FILE, NO_SPACE, DIGEST_MISMATCH and the like."""
