"""The gateway's errors.

HermesError (services.errors)
├── AgentRefused          the agent said no; the reason is the agent's
├── SchedulerRefused      so did the scheduler
├── UnknownPlatform       nothing that is connected here has this name
├── DigestMismatch        a file is not what was announced
├── NotUploaded           a file that a delivery names is not stored
└── PlatformError         a platform did not do what it was asked for
    ├── Unreachable       it could not be asked; nothing was done
    ├── OutcomeUnknown    it did not answer; it may have been done
    ├── RateLimited       it wants us to wait
    ├── MessageGone       the message to edit is not there any more
    ├── Refused           the same would fail again
    └── AccountRefused    the token is not valid, or another program uses it
"""

from services.errors import FailedPrecondition, HermesError, InvalidArgument, Reason, Unavailable


class AgentRefused(HermesError):
    """The agent said no, and would again; the reason is the agent's."""


class SchedulerRefused(HermesError):
    """The scheduler said no, and would again; the reason is the scheduler's."""


class UnknownPlatform(InvalidArgument):
    """Nothing that is connected here has this name."""


class DigestMismatch(InvalidArgument):
    """A file is not what was announced; nothing of it was stored."""

    default_reason = Reason.DIGEST_MISMATCH


class NotUploaded(FailedPrecondition):
    """A file that a delivery names is not stored for it."""


class PlatformError(HermesError):
    """A platform did not do what it was asked for."""


class Unreachable(PlatformError):
    """The platform could not be asked; nothing was done."""

    default_reason = Unavailable.default_reason


class OutcomeUnknown(PlatformError):
    """The platform was asked and did not answer; it may have been done."""

    default_reason = Unavailable.default_reason


class RateLimited(PlatformError):
    """The platform wants us to wait."""

    default_reason = Unavailable.default_reason

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message, retry_after_s=wait_s)
        self.wait_s = wait_s


class MessageGone(PlatformError):
    """The message to edit is not there any more."""

    default_reason = FailedPrecondition.default_reason


class Refused(PlatformError):
    """The platform said no, and would again."""

    default_reason = FailedPrecondition.default_reason


class AccountRefused(PlatformError):
    """The platform does not let this account in; the message says what to do."""

    default_reason = FailedPrecondition.default_reason
