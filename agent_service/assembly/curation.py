"""The curations of all profiles."""

import logging
from collections.abc import AsyncGenerator, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from msgspec import Struct

from agent_service.assembly.core import Core
from agent_service.assembly.stores import Stores
from agent_service.config.endpoints import route_of
from agent_service.models.budgeted_models import BudgetedModels
from agent_service.models.parts import ModelParts
from agent_service.profiles.curation.curation import Curation
from agent_service.profiles.curation.drafts import Ages
from agent_service.profiles.curation.planner import MIN_CLUSTER, CurationPlanner
from agent_service.profiles.curation.state import CuratorState
from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused, LibraryBusy
from agent_service.security.threats import ThreatScanner
from agent_service.storage import sessions
from agent_service.storage.activity import Activity, activity
from services.clock import Clock
from services.database import Database
from services.database.leases import Fenced
from services.errors import FailedPrecondition, NotFound, ServiceUnavailable, Unavailable

_log = logging.getLogger(__name__)


class CurationStatus(Struct, frozen=True):
    """The state of curation in a profile."""

    profile: str
    state: CuratorState
    backup_ids: Sequence[str]
    activity: Activity


class Curations:
    """The curator's work in each profile."""

    def __init__(self, stores: Stores, planning: CurationPlanner, clock: Clock) -> None:
        self._stores = stores
        self._planning = planning
        self._clock = clock

    async def standings(self, profile: str = "") -> Sequence[CurationStatus]:
        """The state in one profile, or in all that are readable."""
        profiles = await self._stores.homes.profiles()
        if profile:
            self._check(profile, profiles)
            return [await self._standing(profile)]
        found: list[CurationStatus] = []
        for name in profiles:
            try:
                found.append(await self._standing(name))
            except FailedPrecondition as error:
                # Only requests for this profile report the error; the others continue.
                _log.info("the skills of %s: %s", name, error)
        return found

    @asynccontextmanager
    async def opened(self, profile: str) -> AsyncGenerator[Curation]:
        """One profile's curation; errors of its library go to the caller."""
        self._check(profile, await self._stores.homes.profiles())
        with _telling():
            yield self._curation(profile)

    async def plan(self, profile: str, ages: Ages, jobs: Collection[str]) -> str:
        """What the model wants to consolidate; empty if there is too little to ask about."""
        async with self.opened(profile) as curation:
            shown = await curation.candidates(ages, jobs)
        return await self._planning.ask(profile, shown, jobs) if len(shown) >= MIN_CLUSTER else ""

    async def pending_summary(self, profile: str) -> str:
        """The part of the last run that no person was told about; empty if none."""
        try:
            with _telling():
                return (await self._curation(profile).state())[0].unreported
        except FailedPrecondition as error:
            _log.error("nothing is told of the curator: %s", error)
            return ""

    async def mark_reported(self, profile: str, summary: str) -> None:
        try:
            with _telling():
                await self._curation(profile).mark_reported(summary)
        except (FailedPrecondition, ServiceUnavailable) as error:
            _log.warning("what the curator did is told once more: %s", error)

    async def recover(self) -> None:
        for profile in await self._stores.homes.profiles():
            try:
                with _telling():
                    await self._curation(profile).recover()
            except (FailedPrecondition, Unavailable) as error:
                # The agent works without it, and the next run reports the error again.
                _log.error("the skills of %s: %s", profile, error)

    def _curation(self, profile: str) -> Curation:
        return Curation(self._stores.skills(profile), self._stores.reports(profile), self._clock)

    async def _standing(self, profile: str) -> CurationStatus:
        with _telling():
            state, backup_ids = await self._curation(profile).state()
        database = self._planning.database
        found = await database.read(lambda conn: activity(conn, profile))
        return CurationStatus(profile, state, backup_ids, found)

    def _check(self, profile: str, profiles: Sequence[str]) -> None:
        if profile not in profiles:
            raise NotFound(f"there is no profile {profile}")


@contextmanager
def _telling() -> Generator[None]:
    try:
        yield
    except (LibraryBusy, Fenced) as error:
        # The library's files are locked for a moment; the run itself has no new owner.
        raise ServiceUnavailable(str(error)) from None
    except (BadSkill, FileRefused) as error:
        raise FailedPrecondition(str(error)) from None


def curations(
    core: Core, stores: Stores, models: ModelParts, spending: BudgetedModels
) -> Curations:
    """Build the curations."""
    route, redact = route_of(core.config.auxiliary, "curator"), core.redactor.redact
    asks = models.consult, route, spending, core.database
    return Curations(stores, CurationPlanner(*asks, ThreatScanner(), redact), core.clock)


class CuratorNews:
    """Tells a person once about the curator's work, with the first answer of a new session."""

    def __init__(self, curations: Curations, database: Database) -> None:
        self._curations = curations
        self._database = database

    async def notices(self, profile: str, kind: str) -> Sequence[str]:
        """Notices for a session that a turn of this kind starts; usually none."""
        summary = await self._curations.pending_summary(profile) if kind == "user" else ""
        return [_render(summary)] if summary else []

    async def mark_reported(self, profile: str, session_id: str) -> None:
        """Mark the notices as told if the session has started with them."""
        summary = await self._curations.pending_summary(profile)
        kept = await self._database.read(
            lambda conn: sessions.get_state(conn, session_id, sessions.NOTICES)
        )
        if summary and kept and _render(summary) in kept["texts"]:
            await self._curations.mark_reported(profile, summary)


def _render(summary: str) -> str:
    return (
        f"The curator has looked after the {summary}. What and why: hermes curator reports; "
        "to undo it: hermes curator rollback."
    )
