"""The gateway's errors.

HermesError (services.errors)
├── AgentRefused          the agent refused; the reason is the agent's
├── SchedulerRefused      the scheduler refused; the reason is the scheduler's
├── UnknownTarget         a target means no chat, or several
└── PlatformError         a platform call failed
    ├── Unreachable       it could not be reached; nothing was done
    ├── OutcomeUnknown    it did not answer; the call may have succeeded
    ├── RateLimited       it asks us to wait
    ├── MessageGone       the message to edit does not exist any more
    ├── ChatMoved         the chat has another id now
    ├── Refused           it refused, and would again
    └── AccountRefused    the token is invalid, or another program uses the account
"""

from services.errors import FailedPrecondition, HermesError, InvalidArgument, Unavailable


class AgentRefused(HermesError):
    """The agent refused, and would again; the reason is the agent's."""


class SchedulerRefused(HermesError):
    """The scheduler refused, and would again; the reason is the scheduler's."""


class UnknownTarget(InvalidArgument):
    """A target means no chat, or several."""


class PlatformError(HermesError):
    """A platform call failed."""

    default_reason = FailedPrecondition.default_reason


class Unreachable(PlatformError):
    """The platform could not be reached; nothing was done."""

    default_reason = Unavailable.default_reason


class OutcomeUnknown(PlatformError):
    """The platform did not answer; the call may have succeeded."""

    default_reason = Unavailable.default_reason


def no_answer(service: str, error: object) -> OutcomeUnknown:
    """Return the error of a call that got no answer; `error` is that of the library."""
    is_late = "Timeout" in type(error).__name__
    how = "did not answer in time" if is_late else "closed the connection before it answered"
    return OutcomeUnknown(f"{service} {how}")


class RateLimited(PlatformError):
    """The platform asks us to wait."""

    default_reason = Unavailable.default_reason

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message, retry_after_s=wait_s)
        self.wait_s = wait_s


class MessageGone(PlatformError):
    """The message to edit does not exist any more."""


class ChatMoved(PlatformError):
    """The chat has another id now; nothing was done."""

    def __init__(self, message: str, new_chat_id: str) -> None:
        super().__init__(message)
        self.new_chat_id = new_chat_id


class Refused(PlatformError):
    """The platform refused, and would again."""


class AccountRefused(PlatformError):
    """The platform rejects this account; the message says what to do."""
