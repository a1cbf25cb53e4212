"""The executor's error tree; those with a star are answers to calls, with a reason.

ExecutorError
├── BackendError
│   ├── BackendUnavailable *  this machine cannot run the backend; the message says what to do
│   ├── BoxCreateFailed *     a box could not be made
│   ├── BoxLost               the box is gone: died, was removed, or cannot be reached again
│   │   ├── BoxOutOfMemory    the whole box ended because it exceeded its memory limit
│   │   └── BoxOutOfSpace     the whole box ended because it exceeded its disk limit
│   ├── WorkspaceRefused *    a workspace cannot be copied; the message says why
│   │   └── WorkspaceInUse *  a box uses the workspace, perhaps another executor's
│   └── EngineRefused         a container engine answered with an error; kept inside its backend
├── LinkClosed                the channel to a box ended; connect again and resume by offset
│   └── LinkRefused           the box does not take this executor: stale epoch, other version
├── BoxPoisoned               the box's supervisor broke the protocol; only that box is given up
├── BoxRefused                the box could not do what was asked; the code says why
│   ├── StartRefused          it could not start a command, which therefore never ran
│   └── FileRefused           it could not complete a file operation
├── ProxyRefused          the box could not open a way to the network
├── EgressRefused         a command may not connect to a host, or the host cannot be reached
├── NetworkUnusable *     a sandbox cannot get the requested network
├── SandboxLost *             the sandbox's box is gone
├── PoolExhausted *           no box became free in time
├── PathInvalid *             a path is not allowed, or is not of the expected kind
├── DigestMismatch *          contents are not what was announced
└── JournalUnusable *         the journal on disk cannot be read; the message says what to do
"""

from services.errors import Aborted, FailedPrecondition, InvalidArgument, Reason, ResourceExhausted


class ExecutorError(Exception):
    """Base class of the executor's errors."""


class BackendError(ExecutorError):
    """A backend could not complete an operation."""


class BackendUnavailable(BackendError, FailedPrecondition):
    """The backend cannot run on this machine; the message says what to do about it."""

    default_reason = Reason.BACKEND_UNAVAILABLE


class BoxCreateFailed(BackendError, FailedPrecondition):
    """The backend is available but could not make this box."""

    default_reason = Reason.BACKEND_UNAVAILABLE


class BoxLost(BackendError):
    """The box no longer exists or can never be reached again."""


class BoxOutOfMemory(BoxLost):
    """The box exceeded its memory limit, which ended the whole box instead of one command."""


class BoxOutOfSpace(BoxLost):
    """The box exceeded its disk limit, which ended the whole box instead of one command."""


class WorkspaceRefused(BackendError, FailedPrecondition):
    """A workspace cannot be copied: too large, too deep, or no room."""


class WorkspaceInUse(WorkspaceRefused):
    """A workspace cannot be removed because a box uses it, perhaps another executor's."""


class EngineRefused(BackendError):
    """A container engine answered with an error; backends convert it to one of theirs."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LinkClosed(ExecutorError):
    """The channel to the box's supervisor ended; commands in the box continue."""


class LinkRefused(LinkClosed):
    """The box does not take this executor; reason is STALE_EPOCH, WRONG_BOX and the like."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the box refused the connection: {reason}")
        self.reason = reason


class BoxPoisoned(ExecutorError):
    """The box's supervisor broke the protocol, so it is not trusted any more."""


class BoxRefused(ExecutorError):
    """The box could not do what was asked; code is NOT_FOUND, PERMISSION_DENIED and the like."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StartRefused(BoxRefused):
    """The box could not start a command, which therefore never ran."""


class FileRefused(BoxRefused):
    """The box could not complete a file operation."""


class ProxyRefused(ExecutorError):
    """The box could not open the port of its proxy."""


class EgressRefused(ExecutorError):
    """A command may not connect to a host, or the host cannot be reached."""

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        """The label for metrics: not_listed, address_refused and the like."""


class NetworkUnusable(ExecutorError, FailedPrecondition):
    """A sandbox's commands cannot get the requested network."""

    default_reason = Reason.BACKEND_UNAVAILABLE


class SandboxLost(ExecutorError, Aborted):
    """The sandbox's box is gone; a command that ran in it may or may not have finished."""

    default_reason = Reason.SANDBOX_LOST


class PoolExhausted(ExecutorError, ResourceExhausted):
    """No box became free within the time that the caller was willing to wait."""

    default_reason = Reason.POOL_EXHAUSTED


class PathInvalid(ExecutorError, InvalidArgument):
    """A path is not allowed, or is not of the expected kind."""

    default_reason = Reason.PATH_INVALID


class DigestMismatch(ExecutorError, InvalidArgument):
    """Contents did not match the announced length or digest; nothing was written."""

    default_reason = Reason.DIGEST_MISMATCH


class JournalUnusable(ExecutorError, FailedPrecondition):
    """The journal on disk cannot be read, or belongs to another process."""
