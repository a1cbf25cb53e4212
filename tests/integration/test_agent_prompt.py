"""What a session's prompt says of its sandbox comes from the executor, which is seldom asked."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from agent_service.clients.executors import Executors
from agent_service.clients.projects import Projects
from agent_service.clients.sandbox_kinds import ASK_AGAIN_S, SandboxKinds
from agent_service.config.tools import SandboxPolicy
from agent_service.profiles.memory.entries import Limits, Target
from agent_service.profiles.memory.store import MemoryStore
from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.prompt.personal import PersonalLayers
from agent_service.records.mcp import NO_SERVERS, SessionServers
from agent_service.records.requests import SessionOptions, TurnRequest
from agent_service.security.threats import ThreatScanner
from agent_service.storage.profiles import FileProfiles
from agent_service.tools.context_files import ContextFiles
from agent_service.turns.session_drafts import Instructions, SessionDrafts, SessionSetup
from services.clock import SystemClock
from services.database import Database
from services.home.paths import HomePaths
from services.redaction.redactor import Redactor
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity, new_tokens
from services.rpc.channels import Channels
from tests.fakes.clock import ManualClock
from tests.support.executors import Process, executor_settings, serving

_SCANNER = ThreatScanner()
_NOTES = ContextFiles(_SCANNER, 20_000)
_UNUSED = Database("sqlite:////nonexistent/agent.db", "agent")
REQUEST = TurnRequest("trn_1", "default", "s", "hi", {"platform": "cli"}, "message")


class NoNews:
    """Has nothing to tell."""

    async def notices(self, profile: str, kind: str) -> Sequence[str]:
        return ()

    async def mark_reported(self, profile: str, session_id: str) -> None:
        raise AssertionError("there was nothing to tell")


@asynccontextmanager
async def asking(
    address: UnixAddress, token: str, clock: ManualClock
) -> AsyncGenerator[SessionDrafts]:
    """What builds the prompts of an agent whose executor is at an address."""
    async with Channels(Identity.AGENT, {"executor": address}, token=token) as channels:
        kinds, policy = SandboxKinds(channels, clock), SandboxPolicy()
        unused = Projects(Executors(channels, 1), _NOTES)
        places = SessionSetup(kinds, unused, policy, _no_servers)
        told = Instructions("", _no_model, ())
        given = (told, places, _nothing(), NoNews(), Redactor())
        yield SessionDrafts(SystemClock(), ["terminal", "todo"], *given)


async def _no_servers(_profile: str) -> tuple[SessionServers, tuple[str, ...]]:
    return NO_SERVERS, ()


async def _no_model() -> str:
    return "none"


def _nothing() -> PersonalLayers:
    """The layers of a user who has written nothing, and is not remembered."""
    home = FileProfiles(HomePaths(Path("/nonexistent"), Path("/nonexistent")))
    limits = Limits(dict.fromkeys(Target, 100))
    memories = MemoryStore(home, _UNUSED, limits, SystemClock(), _SCANNER)
    shelves = SkillShelves(lambda name: HomeSkillFiles(Path(name)), SystemClock(), _SCANNER)
    return PersonalLayers(home, memories, shelves, (), _NOTES)


async def test_many_sessions_cost_one_question(tmp_path: Path) -> None:
    settings, clock = executor_settings(tmp_path, "bubblewrap"), ManualClock()
    async with serving(settings) as executor:
        assert isinstance(executor.address, UnixAddress)
        token = executor.tokens[Identity.AGENT]
        async with asking(executor.address, token, clock) as drafts:
            made = await asyncio.gather(*(drafts.draft(REQUEST) for _ in range(20)))
            assert executor.calls.begun == ["GetCapabilities"]
            for draft in made:
                assert "an isolated Linux machine without network" in draft.system_prompt
                assert "/workspace is kept for the session" in draft.system_prompt
            await clock.advance(ASK_AGAIN_S)
            await drafts.draft(REQUEST)
            assert executor.calls.begun == ["GetCapabilities"] * 2


async def test_the_configured_network_is_what_the_model_is_told(tmp_path: Path) -> None:
    settings = executor_settings(tmp_path, "bubblewrap", HERMES_NETWORK_MODE="open")
    async with serving(settings) as executor:
        assert isinstance(executor.address, UnixAddress)
        token = executor.tokens[Identity.AGENT]
        async with asking(executor.address, token, ManualClock()) as drafts:
            prompt = (await drafts.draft(REQUEST)).system_prompt
    assert "an isolated Linux machine with network" in prompt


async def test_an_executor_that_is_away_holds_nobody_up_for_long(tmp_path: Path) -> None:
    settings, clock, tokens = executor_settings(tmp_path, "bubblewrap"), ManualClock(), new_tokens()
    await asyncio.to_thread(settings.home.create)
    executor = Process(settings, tokens=tokens)
    async with asking(executor.address, tokens[Identity.AGENT], clock) as drafts:
        async with asyncio.timeout(3):
            unknown = (await drafts.draft(REQUEST)).system_prompt
        assert "is not known: be careful" in unknown
        async with executor:
            # Whoever has just found nobody asks nobody.
            assert (await drafts.draft(REQUEST)).system_prompt.count("is not known") == 1
            await clock.advance(ASK_AGAIN_S)
            assert "without network" in (await drafts.draft(REQUEST)).system_prompt
        await clock.advance(ASK_AGAIN_S)
        assert "without network" in (await drafts.draft(REQUEST)).system_prompt


async def test_a_session_of_a_template_that_there_is_not_is_refused(tmp_path: Path) -> None:
    clock, tokens = ManualClock(), new_tokens()
    plain = executor_settings(tmp_path, "bubblewrap")
    await asyncio.to_thread(plain.home.create)
    wanting = replace(REQUEST, new_session=SessionOptions(sandbox_template="walled"))
    executor = Process(plain, tokens=tokens)
    async with asking(executor.address, tokens[Identity.AGENT], clock) as drafts:
        assert not (await drafts.draft(wanting)).refusal, "nobody tells what there is"
        await clock.advance(ASK_AGAIN_S)
        async with executor:
            refusal = (await drafts.draft(wanting)).refusal
            assert refusal == "there is no template 'walled' of sandboxes; choose of: default"
            assert not (await drafts.draft(REQUEST)).refusal
            assert (await executor.stop()) == 0
        text = "executor: {templates: {walled: {backend: docker, settings: {host: unix:///none}}}}"
        await asyncio.to_thread((tmp_path / "config.yaml").write_text, text)
        later = await asyncio.to_thread(executor_settings, tmp_path, "bubblewrap")
        async with Process(later, tokens=tokens):
            await clock.advance(ASK_AGAIN_S)
            assert not (await drafts.draft(wanting)).refusal, "it can be had later, perhaps"
