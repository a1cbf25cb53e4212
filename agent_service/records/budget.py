"""Budgets: how much a profile, a session, a job or a day may spend."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

PER_USD = 1_000_000


class Scope(StrEnum):
    """What a budget is for."""

    PROFILE = "profile"
    """Everything that a profile ever uses."""
    SESSION = "session"
    JOB = "job"
    DAY = "day"


class Amount(Struct, frozen=True):
    """Money and tokens; in a limit, 0 means unlimited."""

    micro_usd: int = 0
    tokens: int = 0
    unpriced: str = ""
    """The model without a known price that made the cost unknown; else empty."""

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.micro_usd + other.micro_usd, self.tokens + other.tokens)

    def __bool__(self) -> bool:
        return bool(self.micro_usd or self.tokens)


class Account(Struct, frozen=True):
    """The profile, session, day, and job if any, that a model call is charged to."""

    profile: str
    session_id: str
    job_id: str
    day: str

    def id_in(self, scope: Scope) -> str:
        """Return the account's id in a scope; empty if it has none."""
        ids = {
            Scope.PROFILE: self.profile,
            Scope.SESSION: self.session_id,
            Scope.JOB: self.job_id,
            Scope.DAY: self.day,
        }
        return ids[scope]


class BudgetStatus(Struct, frozen=True):
    """A budget and what was spent of it."""

    scope: Scope
    scope_id: str
    """The session or job; empty for the budget of each of them."""
    limit: Amount
    spent: Amount = field(default_factory=Amount)
    reserved: Amount = field(default_factory=Amount)
    """By running model calls."""
    is_set: bool = False
    """Set by a person, not by config.yaml."""

    def has_room_for(self, asked: Amount) -> bool:
        """Return whether the budget certainly has room for this amount."""
        if asked.unpriced and self.limit.micro_usd:
            return False
        return not self._over(self.spent + self.reserved + asked)

    @property
    def used_ratio(self) -> float:
        """Return the used share of the limit: the larger of money and tokens."""
        return max((spent / limit for spent, limit in self._pairs if limit), default=0.0)

    @property
    def _pairs(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (
            (self.spent.micro_usd, self.limit.micro_usd),
            (self.spent.tokens, self.limit.tokens),
        )

    def is_past(self, percent: int) -> bool:
        return any(limit and spent * 100 >= limit * percent for spent, limit in self._pairs)

    def refusal(self, asked: Amount) -> str:
        which = f"{self.scope} --id {self.scope_id}" if self.scope_id else f"{self.scope}"
        if asked.unpriced and self.limit.micro_usd:
            return (
                f"{self.name} is in US dollars, and the price of {asked.unpriced} is not known, so "
                "that the model is not called. Set its price under models in config.yaml, count "
                "such models as free (hermes config set budget.unpriced free), or limit tokens: "
                f"hermes budget set {which} --tokens N."
            )
        in_usd = self.limit.micro_usd and not self._within_usd(self.spent + self.reserved + asked)
        spent, reserved, most, limit = (
            _render(amount, in_usd=bool(in_usd))
            for amount in (self.spent, self.reserved, asked, self.limit)
        )
        later = " or wait until tomorrow" if self.scope is Scope.DAY else ""
        running = f", {reserved} reserved by running calls" if self.reserved else ""
        return (
            f"{self.name} does not allow another model call: {spent} of {limit} spent{running}, "
            f"and the call may take {most}. Raise it with hermes budget set {which}{later}."
        )

    def warning(self) -> str:
        parts = [
            f"{_render(self.spent, in_usd=in_usd)} of {_render(self.limit, in_usd=in_usd)}"
            for in_usd, limit in ((True, self.limit.micro_usd), (False, self.limit.tokens))
            if limit
        ]
        return f"{self.name} is nearly used up: {' and '.join(parts)}."

    @property
    def name(self) -> str:
        return {
            Scope.PROFILE: "The profile's budget",
            Scope.SESSION: "This session's budget",
            Scope.JOB: "This job's budget",
            Scope.DAY: "Today's budget",
        }[self.scope]

    def _over(self, amount: Amount) -> bool:
        limit = self.limit.tokens
        return not self._within_usd(amount) or bool(limit and amount.tokens > limit)

    def _within_usd(self, amount: Amount) -> bool:
        return not self.limit.micro_usd or amount.micro_usd <= self.limit.micro_usd


class Policy(Struct, frozen=True):
    """The budgets in config.yaml."""

    limits: Mapping[Scope, Amount]
    warn_percent: int = 80
    unpriced_is_free: bool = False

    @property
    def is_limiting(self) -> bool:
        return any(self.limits.values())


def _render(amount: Amount, *, in_usd: bool) -> str:
    if not in_usd:
        return f"{amount.tokens:,} tokens"
    usd = amount.micro_usd / PER_USD
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"
