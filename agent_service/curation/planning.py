"""Asks a model which skills belong together, in the budgets of the profile and counted with it.

It is one question and no turn: there is nothing to do with tools, nothing to show to anybody, and
what it answers is stored by whoever asked. Where the answer is lost it is asked again.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent_service.curation.prompt import Shown, messages
from agent_service.errors import BudgetReached
from agent_service.models.base import Purpose
from agent_service.models.consult import Consult, NoAnswer
from agent_service.models.fallback import Route
from agent_service.security.threats import ThreatScanner
from agent_service.spending import Spending
from services.database import Database
from services.errors import FailedPrecondition

TIME_LIMIT_S = 600.0
SESSION_ID = "curator"
"""What its calls are counted under; no session has this id."""


class Charge(Struct, frozen=True):
    """Who pays."""

    profile: str

    @property
    def session_id(self) -> str:
        """Where it is counted: sums of a session are of one profile."""
        return f"{SESSION_ID}:{self.profile}"

    @property
    def charged_session_id(self) -> str:
        """Whose budgets hold."""
        return self.session_id


class Planning(Struct, frozen=True):
    """How plans are asked for."""

    consult: Consult
    route: Route
    spending: Spending
    database: Database
    scanner: ThreatScanner
    redact: Callable[[str], str]
    """Takes secrets out of what is sent."""

    async def ask(self, profile: str, skills: Sequence[Shown]) -> str:
        """What the model answers; FailedPrecondition says why it does not."""
        charge = Charge(profile)
        try:
            request = await self.consult.request(
                self._messages(skills), self.route, Purpose.CURATOR
            )
            call_id = await self.spending.hold_outside(charge, request, TIME_LIMIT_S)
        except (NoAnswer, BudgetReached) as error:
            raise FailedPrecondition(str(error)) from None
        given = await self.consult.answer(request, TIME_LIMIT_S)
        await self.database.write(
            lambda conn: self.spending.count(conn, charge, call_id, given.paid)
        )
        if given.failure:
            raise FailedPrecondition(given.failure)
        return given.text

    def _messages(self, skills: Sequence[Shown]) -> Sequence[dict[str, object]]:
        return messages([self._seen(skill) for skill in skills])

    def _seen(self, skill: Shown) -> Shown:
        """A skill as models may see it."""
        return replace(
            skill, description=self._clean(skill.description), text=self._clean(skill.text)
        )

    def _clean(self, text: str) -> str:
        return self.scanner.clean(self.redact(text))[0]
