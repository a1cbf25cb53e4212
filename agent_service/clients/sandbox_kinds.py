"""The kinds of sandboxes that the executor offers, cached."""

import asyncio
from collections.abc import Mapping

import grpc.aio

from agent_service.prompt.system_prompt import SandboxKind
from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.clock import Clock
from services.errors import FailedPrecondition
from services.rpc.channels import Channels
from services.rpc.messages import record_of

ASK_AGAIN_S = 5.0
"""How long an answer is valid, or that there was none."""
DEADLINE_S = 1.0
"""How long a turn may wait for an answer."""

_USUAL = "default"


class SandboxKinds:
    """Describes the next session's sandbox."""

    def __init__(self, channels: Channels, clock: Clock) -> None:
        self._channels = channels
        self._clock = clock
        self._known: Mapping[str, SandboxKind | None] = {}
        """By template; None if it is unavailable now."""
        self._ask_at = 0.0
        self._asking = asyncio.Lock()

    async def get(self, template: str) -> SandboxKind | None:
        """Describe the sandboxes of a template (empty: the default); None if it is unknown."""
        async with self._asking:
            if self._clock.monotonic() >= self._ask_at:
                await self._ask()
                self._ask_at = self._clock.monotonic() + ASK_AGAIN_S
        return self._known.get(template or _USUAL)

    def lack(self, template: str) -> str:
        """Return why a template is unavailable, as far as known; else empty."""
        if not template or not self._known or template in self._known:
            return ""
        listed = ", ".join(self._known)
        return f"there is no template {template!r} of sandboxes; choose of: {listed}"

    async def _ask(self) -> None:
        try:
            stub = SandboxServiceStub(self._channels.to("executor"))
            request = sandbox_pb2.GetCapabilitiesRequest()
            answer = await stub.GetCapabilities(request, timeout=DEADLINE_S)
        except (grpc.aio.AioRpcError, FailedPrecondition):
            pass  # keep the last known answer
        else:
            self._known = {
                found.template: record_of(found, SandboxKind) if found.available else None
                for found in answer.backends
                if found.template
            }
