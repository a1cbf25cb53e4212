"""Errors of logins; none has a token in it.

HermesError (services.errors)
├── LoginNeeded           there is no login, or the provider takes it no longer: log in (again)
│   └── LoginUsedUp       it can never be renewed again
├── LoginFailed           the provider said no; the message has its words
│   └── NotPaid           the account has no subscription, or nothing left of it
└── LoginUnavailable      the provider cannot be asked at the moment
"""

from services.errors import FailedPrecondition, Reason, ServiceUnavailable


class LoginNeeded(FailedPrecondition):
    """There is no login, or the provider takes it no longer; the message says how to log in."""

    default_reason = Reason.MODEL_AUTH


class LoginUsedUp(LoginNeeded):
    """What the login was to be renewed with is revoked, expired or used already."""


class LoginFailed(FailedPrecondition):
    """The provider said no."""

    default_reason = Reason.MODEL_AUTH


class NotPaid(LoginFailed):
    """The account has no subscription, or nothing left of it."""

    default_reason = Reason.MODEL_BILLING


class LoginUnavailable(ServiceUnavailable):
    """The provider cannot be reached, or fails; the same may work a moment later."""
