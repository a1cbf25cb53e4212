"""Initial values of new sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import tzinfo
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent_service.clients.projects import Projects
from agent_service.clients.sandbox_kinds import SandboxKinds
from agent_service.config.tools import SandboxPolicy
from agent_service.models.catalog import SMALL_WINDOW
from agent_service.prompt.personal import Personal, PersonalLayers
from agent_service.prompt.system_prompt import SessionFacts, build, describe_chat
from agent_service.records.mcp import NO_SERVERS, SessionServers
from agent_service.records.overlays import NOTHING, Overlay, OverlayMessage
from agent_service.records.requests import SUBAGENT, TurnRequest
from agent_service.storage.turns import SessionDraft
from agent_service.tools.context_files import skips_context_files
from agent_service.tools.schema import LEAN_TOOLSETS
from services.clock import Clock
from services.lifecycle import ungrouped
from services.redaction.redactor import Redactor

LEAN_NOTICE = (
    "This session has the lean tools, {why}: terminal, files, memory and skills. "
    "For all tools: hermes config set tools full."
)


class SessionSetup(Struct, frozen=True):
    """Where sessions work, and who describes it."""

    sandboxes: SandboxKinds
    projects: Projects
    policy: SandboxPolicy
    servers: Callable[[str], Awaitable[tuple[SessionServers, tuple[str, ...]]]]

    async def offer(
        self, request: TurnRequest, toolsets: frozenset[str]
    ) -> tuple[SessionServers, tuple[str, ...]]:
        """Return the servers' tools for a session with these toolsets."""
        if "mcp" not in toolsets or request.is_script_only:
            return NO_SERVERS, ()
        return await self.servers(request.profile)


async def _unknown(_model: str) -> int:
    return 0


class Instructions(Struct, frozen=True):
    """Configured instructions for sessions."""

    system_message: str
    default_model: Callable[[], Awaitable[str]]
    announcing: Sequence[str]
    """Parts of ids of models that tend to announce actions without taking them."""

    preset: Literal["auto", "lean", "full"] = "full"
    window_of: Callable[[str], Awaitable[int]] = _unknown
    """The tokens of context of a model, or of the default one if empty; 0 if unknown."""
    overlay: Overlay = NOTHING
    zone: tzinfo | None = None
    """The time zone of prompts; None means the machine's."""

    def overlaid(self, request: TurnRequest) -> Overlay:
        """Return the overlay of a request's session; subagents get none."""
        if request.kind == SUBAGENT:
            return NOTHING
        chat = describe_chat(request.origin) if request.kind == "user" else ""
        overlays = request.new_session.overlays
        own = [text for text in (chat, overlays.ephemeral_system_prompt) if text.strip()]
        prefill = tuple(OverlayMessage(m.role, m.text) for m in overlays.prefill_messages)
        instructions = (*self.overlay.instructions, *own)
        return Overlay(instructions, prefill or self.overlay.prefill)

    async def lean_because(self, request: TurnRequest) -> str:
        """Return why the request's session gets the lean tools; empty if it does not."""
        if self.preset == "lean":
            return "as configured (tools.preset)"
        if self.preset == "full" or request.options.toolsets or request.is_script_only:
            return ""
        tokens = await self.window_of(request.options.model)
        return f"as its model has {tokens:,} tokens of context" if 0 < tokens < SMALL_WINDOW else ""

    async def announces(self, request: TurnRequest) -> bool:
        """Return whether the request's model tends to announce actions."""
        if request.is_script_only:
            return False
        name = (request.options.model or await self.default_model()).lower()
        return any(part.lower() in name for part in self.announcing)


class SessionNews(Protocol):
    """News that a person is told once, in whichever session begins next."""

    async def notices(self, profile: str, kind: str) -> Sequence[str]: ...

    async def mark_reported(self, profile: str, session_id: str) -> None: ...


class SessionDrafts:
    """Builds drafts of new sessions."""

    def __init__(
        self,
        clock: Clock,
        toolsets: Collection[str],
        instructions: Instructions,
        places: SessionSetup,
        personal: PersonalLayers,
        news: SessionNews,
        redactor: Redactor,
    ) -> None:
        self._clock = clock
        self.default_model = instructions.default_model
        self._toolsets = frozenset(toolsets)
        self._instructions = instructions
        self._places = places
        self._personal = personal
        self._news = news
        self._redactor = redactor

    async def draft(self, request: TurnRequest) -> SessionDraft:
        wanted = frozenset(request.granted)
        toolsets = self._toolsets & wanted if wanted else self._toolsets
        places, asked = self._places, request.new_session
        template = asked.sandbox_template or places.policy.template_for(
            request.profile, request.kind
        )
        lean = await self._instructions.lean_because(request)
        toolsets = toolsets & LEAN_TOOLSETS if lean else toolsets
        # Skills are looked up when they are needed.
        indexed = toolsets - {"skills"} if lean else toolsets
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                found = group.create_task(places.sandboxes.get(template))
                read = group.create_task(places.projects.read(request, template))
                news = group.create_task(self._news.notices(request.profile, request.kind))
                announcing = group.create_task(self._instructions.announces(request))
                offering = group.create_task(places.offer(request, toolsets))
                personal = await self._personal.compose(request, indexed)
        kind, project, announces = found.result(), read.result(), announcing.result()
        servers, missing = offering.result()
        skips, remembers = skips_context_files(request), "memory" in toolsets
        told = (*_notices(personal, remembers=remembers), *missing)
        facts = SessionFacts(
            session_id=request.session_id,
            platform=request.platform,
            started_at=self._clock.now().astimezone(self._instructions.zone),
            toolsets=toolsets,
            sandbox=kind if "terminal" in toolsets else None,
            workdir=asked.workdir,
            is_lean=bool(lean),
            announces=announces,
            system_messages=(self._instructions.system_message, asked.system_message),
            soul="" if skips else personal.soul.text,
            external=personal.external,
            memories=personal.memories.texts if remembers else (),
            skills=personal.skills.text,
            project=project.text,
        )
        return SessionDraft(
            await asyncio.to_thread(self._redactor.redact, build(facts)),
            asked.workdir,
            template,
            notices=(
                *(() if skips else personal.soul.blocked),
                *project.blocked,
                *(told if request.kind == "user" else ()),
                *([LEAN_NOTICE.format(why=lean)] if lean and request.kind == "user" else ()),
                *news.result(),
            ),
            skips_context_files=skips,
            overlay=replace(
                self._instructions.overlaid(request), is_lean=bool(lean), servers=servers
            ),
            memory_limits=personal.memories.limits,
            refusal=places.sandboxes.lack(asked.sandbox_template),
        )

    async def begun(self, request: TurnRequest, draft: SessionDraft) -> None:
        if draft.notices:
            await self._news.mark_reported(request.profile, request.session_id)


def _notices(personal: Personal, *, remembers: bool) -> tuple[str, ...]:
    memories = personal.memories
    of_memories = (*memories.too_long, *memories.blocked) if remembers else ()
    return *of_memories, *personal.skills.blocked
