"""The agent's errors: the service's own, and what a failed model call means for a turn.

HermesError (services.errors)
├── ModelNotConfigured    no model endpoint is set; the message says what to set
└── BudgetReached         a model call might take more than a budget has left
"""

from agent_service.records.events import Outcome, TurnFinished
from agent_service.records.model_errors import ModelError, ModelErrorKind
from services.errors import FailedPrecondition, LimitExceeded, Reason


class ModelNotConfigured(FailedPrecondition):
    """No model endpoint is configured; the message says what to set."""

    default_reason = Reason.MODEL_NOT_CONFIGURED


class BudgetReached(LimitExceeded):
    """A model call was not made because a budget might not have room for it."""


_REASONS = {
    ModelErrorKind.AUTH: Reason.MODEL_AUTH,
    ModelErrorKind.BILLING: Reason.MODEL_BILLING,
    ModelErrorKind.RATE_LIMIT: Reason.MODEL_RATE_LIMITED,
    ModelErrorKind.CONTEXT_OVERFLOW: Reason.MODEL_CONTEXT_OVERFLOW,
    ModelErrorKind.CONTENT_POLICY: Reason.MODEL_CONTENT_POLICY,
    ModelErrorKind.NO_SUCH_MODEL: Reason.MODEL_NOT_CONFIGURED,
    ModelErrorKind.BAD_REQUEST: Reason.MODEL_BAD_RESPONSE,
}


def model_failure(error: ModelError, partial: str) -> TurnFinished:
    """Return the end of a turn whose model call failed for good."""
    return TurnFinished(
        Outcome.FAILED,
        text=partial,
        message=str(error),
        reason=_REASONS.get(error.kind, Reason.MODEL_UNAVAILABLE),
        retryable=error.retryable,
        cause=error.kind,
        retry_after_s=error.retry_after_s,
    )


def budget_reached(error: BudgetReached) -> TurnFinished:
    """Return the end of a turn whose next model call exceeds a budget."""
    return TurnFinished(Outcome.LIMIT_REACHED, message=str(error))
