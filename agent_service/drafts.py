"""What a new session is created with."""

from collections.abc import Sequence
from datetime import tzinfo

from agent_service.clients.sandbox_kinds import SandboxKinds
from agent_service.config import SandboxPolicy
from agent_service.prompt.layers import SessionFacts, build
from agent_service.prompt.personal import PersonalLayers
from agent_service.requests import TurnRequest
from agent_service.storage.turns import SessionDraft
from services.clock import Clock


class SessionDrafts:
    """Builds the system prompt of a session that a turn may create."""

    def __init__(
        self,
        clock: Clock,
        zone: tzinfo | None,
        toolsets: Sequence[str],
        system_message: str,
        sandboxes: SandboxKinds,
        policy: SandboxPolicy,
        personal: PersonalLayers,
    ) -> None:
        self._clock = clock
        self._zone = zone
        self._toolsets = frozenset(toolsets)
        self._system_message = system_message
        self._sandboxes = sandboxes
        self._policy = policy
        self._personal = personal

    async def draft(self, request: TurnRequest) -> SessionDraft:
        """The session as this turn would create it."""
        wanted = frozenset(request.toolsets)
        toolsets = self._toolsets & wanted if wanted else self._toolsets
        template = request.sandbox_template or self._policy.of(request.profile, request.kind)
        personal = await self._personal.of(request.profile, toolsets, request.platform)
        facts = SessionFacts(
            session_id=request.session_id,
            platform=request.platform,
            started_at=self._clock.now().astimezone(self._zone),
            toolsets=toolsets,
            sandbox=await self._sandboxes.of(template) if "terminal" in toolsets else None,
            workdir=request.workdir,
            system_messages=(self._system_message, request.system_message),
            # Who works for another agent is nobody in particular.
            soul="" if request.kind == "subagent" else personal.soul,
            memories=personal.memories if "memory" in toolsets else (),
            skills=personal.skills,
        )
        return SessionDraft(build(facts), request.workdir, template)
