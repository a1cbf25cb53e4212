"""The agent's tools as a turn has them: on a real database, against a real executor."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from msgspec.structs import replace
from sqlalchemy import Connection

from agent_service.assembly.tools import browsers_of
from agent_service.clients.executors import Executors, LeftSandboxes
from agent_service.clients.leases import SandboxLeases
from agent_service.config.tools import BrowserConfig
from agent_service.models.fallback import USUAL
from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.records.calls import PendingCall
from agent_service.records.commands import ApprovalNeeded, ToolReturned
from agent_service.records.model import ToolCall
from agent_service.records.requests import TurnOptions, TurnRequest, Unattended
from agent_service.records.turn_state import LiveTurn
from agent_service.security.threats import ThreatScanner
from agent_service.storage import claims, journal, turns
from agent_service.storage.claims import Claimant, turn_leases
from agent_service.storage.schema import metadata
from agent_service.storage.turns import SessionDraft
from agent_service.tools.base import Tool
from agent_service.tools.browser.browsers import Browsers
from agent_service.tools.builtin import ApprovalPolicy, builtin_tools
from agent_service.tools.picture_viewer import PictureViewer
from agent_service.tools.schema import offered
from agent_service.tools.toolbox import Toolbox
from agent_service.turns.delegation import Delegation
from agent_service.turns.message_assembly import Screening
from agent_service.turns.tool_context_factory import ToolContextFactory
from services.clock import SystemClock
from services.database import Database
from services.database.leases import new_owner
from services.ids import new_id
from services.redaction.redactor import Redactor
from services.rpc.addresses import Address
from services.rpc.auth import Identity, Tokens
from services.rpc.channels import Channels
from tests.support.executors import end_boxes, executor_settings, serving
from tests.support.reach import out_of_reach

LEASE_S = 300
AWAY_S = 2
LIMITS = journal.TurnLimits(1000, timedelta(minutes=1))
OPTIONS = TurnOptions("scripted", max_model_calls=9, unattended=Unattended.DENY)


class Tools:
    """The tools of one turn, called as its model would."""

    def __init__(
        self,
        toolbox: Toolbox,
        turn: LiveTurn,
        left: LeftSandboxes,
        database: Database,
        library: Path,
    ) -> None:
        self.left = left
        self.database = database
        self.library = library
        """The folder of the skills."""
        self.browsers = Browsers()
        self.asked: list[str] = []
        """What a person is asked to approve; calls that wait for it return nothing."""
        self._toolbox = toolbox
        self._turn = turn
        self._numbers = count(1)

    async def __call__(self, name: str, /, **arguments: Any) -> ToolReturned:
        (returned,) = await self.all((name, arguments))
        return returned

    async def text(self, name: str, /, **arguments: Any) -> str:
        """What a call that must succeed tells the model."""
        returned = await self(name, **arguments)
        assert not returned.is_error, returned.text
        return returned.text

    async def refusal(self, name: str, /, **arguments: Any) -> str:
        returned = await self(name, **arguments)
        assert returned.is_error, returned.text
        return returned.text

    async def shell(self, command: str) -> str:
        """What a command at the top of the workspace prints."""
        return await self.text("terminal", command=command, workdir="/workspace")

    async def all(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolReturned]:
        """What the calls of one message return, in their order."""
        return await self.run(*[self.pending(name, arguments) for name, arguments in calls])

    async def run(self, *pending: PendingCall) -> list[ToolReturned]:
        """What pending calls of one message return, in their order."""
        self._turn.pending = {call.key: call for call in pending}
        returned: dict[str, ToolReturned] = {}
        async for outcome in self._toolbox.run(self._turn):
            for fact in outcome if isinstance(outcome, tuple) else ():
                if isinstance(fact, ToolReturned):
                    returned[fact.call.key] = fact
                if isinstance(fact, ApprovalNeeded):
                    self.asked.append(fact.subject)
        return [returned[call.key] for call in pending if not self.asked]

    def resumed(self, call: PendingCall) -> PendingCall:
        """The call as the next owner of its turn finds it."""
        return replace(call, resumed=True)

    def pending(self, name: str, arguments: dict[str, Any]) -> PendingCall:
        number = next(self._numbers)
        call = ToolCall(f"call_{number}", name, json.dumps(arguments))
        return PendingCall(f"{self._turn.id}:{number}", call, number, number)


def _none() -> NoReturn:
    raise AssertionError("these tools have no turns to hand work to")


@asynccontextmanager
async def open_tools(
    folder: Path,
    address: Address,
    tokens: Tokens,
    *,
    away_s: float = AWAY_S,
    more: Sequence[Tool[Any]] = (),
    browser: BrowserConfig | None = None,
    asking: ApprovalPolicy | None = None,
) -> AsyncGenerator[Tools]:
    """The tools of a turn of a new session, and some more, with an executor at an address."""
    leases, clock = turn_leases(LEASE_S), SystemClock()
    claimant = Claimant(new_owner("test"), "", leases)
    turn_id, session_id = new_id("trn"), new_id("session")
    request = TurnRequest(turn_id, "", session_id, "hi", {"platform": "cli"}, "message")

    def begin(conn: Connection) -> LiveTurn:
        turns.store(conn, request, OPTIONS, SessionDraft("", ""), clock.now())
        claimed = claims.claim(conn, turn_id, claimant, clock.now())
        assert claimed is not None
        return journal.load(conn, claimed, LIMITS, None).turn

    token = tokens[Identity.AGENT]
    async with (
        Database(f"sqlite:///{folder}/{turn_id}.db", "agent") as database,
        Channels(Identity.AGENT, {"executor": address}, token=token) as channels,
    ):
        await database.migrate(metadata.create_all)
        turn = await database.write(begin)
        executors = Executors(channels, away_s)
        library = folder / "skills"
        shelves = SkillShelves(lambda _profile: HomeSkillFiles(library), clock, ThreatScanner())
        delegation = Delegation(_none, (), 3, database)
        sandboxes = SandboxLeases(executors, database)
        screening = Screening(ThreatScanner(), Redactor())
        sight = PictureViewer(lambda _model: True, USUAL, screening.screen_file)
        contexts = ToolContextFactory(database, leases, sandboxes, shelves, delegation, sight)
        browsers = browsers_of(browser or BrowserConfig(), executors)
        reach = replace(out_of_reach(), browsers=browsers)
        toolbox = Toolbox([*offered(builtin_tools(reach, asking=asking)), *more], contexts.make)
        opened = Tools(toolbox, turn, LeftSandboxes(executors, database), database, library)
        opened.browsers = browsers
        yield opened


@asynccontextmanager
async def tools_over(backend: str, folder: Path) -> AsyncGenerator[Tools]:
    """The tools of one session, with an executor of its own in a folder, whose boxes end."""
    settings = executor_settings(folder, backend)
    async with (
        serving(settings) as executor,
        open_tools(executor.home, executor.address, executor.tokens) as opened,
    ):
        yield opened
    await end_boxes(settings)
