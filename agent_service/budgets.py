"""Holds model calls to their budgets: what a call may take is reserved before it is made."""

from collections.abc import Collection
from typing import NoReturn

from sqlalchemy import Connection

from agent_service.budget import Account, Amount, Policy, Scope, Standing
from agent_service.errors import BudgetReached
from agent_service.live_turn import LiveTurn
from agent_service.storage import budgets
from services.clock import Clock
from services.database import Database
from services.leases import LeaseTable

LOOK_AGAIN_S = 1.0
"""After how long a budget that was set through another replica holds here, where there was none."""


class Budgets:
    """The budgets of all profiles."""

    def __init__(
        self, database: Database, leases: LeaseTable, policy: Policy, clock: Clock
    ) -> None:
        self._database = database
        self._leases = leases
        self.policy = policy
        self._clock = clock
        self._limited: frozenset[str] = frozenset()
        self._looked_at: float | None = None
        self._changes = 0

    async def apply_to(self, profile: str) -> bool:
        """Whether a profile has any budget, as far as was to be seen a moment ago."""
        if self.policy.is_limiting:
            return True
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_AGAIN_S:
            changes = self._changes
            found = await self._database.read(budgets.limited_profiles)
            # Only what was read is known: who calls meanwhile must not take the old for it.
            if changes == self._changes:
                self._limited, self._looked_at = found, now
            return profile in found
        return profile in self._limited

    async def reserve(
        self, turn: LiveTurn, account: Account, asked: Amount, reservation: str = ""
    ) -> list[Standing]:
        """Hold what a turn's next call may take; returns how its budgets stood before.

        Calls that are made side by side have reservations of different names. BudgetReached when
        one has no room for it; Fenced when the turn has another owner.
        """
        found, refusing = await self._database.write(
            lambda conn: budgets.reserve(
                conn, self._leases, turn.lease, account, asked, self.policy, reservation
            )
        )
        if refusing is not None:
            _refuse(refusing, asked)
        turn.has_reserved = turn.has_reserved or bool(found)
        return found

    async def hold(self, account: Account, asked: Amount, call_id: str, for_s: float) -> None:
        """Hold for some time what a call outside of turns may take; BudgetReached as above."""
        _, refusing = await self._database.write(
            lambda conn: budgets.hold(conn, call_id, for_s, account, asked, self.policy)
        )
        if refusing is not None:
            _refuse(refusing, asked)

    def nearly_used_up(self, standings: Collection[Standing]) -> list[Standing]:
        """Those of which a person is to hear."""
        return [one for one in standings if one.is_past(self.policy.warn_percent)]

    async def listed(self, account: Account) -> list[Standing]:
        """All budgets of a profile, and how they stand."""
        return await self._database.read(
            lambda conn: budgets.every_limit(conn, account, self.policy)
        )

    async def set(
        self,
        profile: str,
        scope: Scope,
        scope_id: str,
        limit: Amount | None,
        *,
        keeps_set: bool = False,
    ) -> None:
        """Set a budget, or leave it to config.yaml again; it holds from the next call on.

        One that was set before stays if that is asked.
        """

        def write(conn: Connection) -> None:
            if not keeps_set:
                budgets.set_limit(conn, profile, scope, scope_id, limit)
            elif limit is not None:
                budgets.set_first_limit(conn, profile, scope, scope_id, limit)

        await self._database.write(write)
        self._changes += 1
        self._looked_at = None


def _refuse(standing: Standing, asked: Amount) -> NoReturn:
    raise BudgetReached(standing.refusal(asked))
