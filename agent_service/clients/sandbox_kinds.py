"""What sandboxes the executor gives, asked now and then and not by every turn."""

import asyncio
from collections.abc import Mapping

import grpc.aio

from agent_service.prompt.sandbox import Network, SandboxKind
from hermes.executor.v1 import network_pb2, sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.channels import Channels
from services.clock import Clock
from services.errors import FailedPrecondition

FRESH_S = 600.0
"""How long an answer counts; it changes when somebody configures the executor anew."""
ASK_AGAIN_S = 5.0
"""How long nobody is asked after there was no answer."""
DEADLINE_S = 1.0
"""How long a turn may wait for the answer."""

_USUAL = "default"
_NETWORKS = {
    network_pb2.NETWORK_MODE_NONE: Network.NONE,
    network_pb2.NETWORK_MODE_ALLOW_LIST: Network.ALLOW_LIST,
}


class SandboxKinds:
    """Knows what the next session's sandbox is like."""

    def __init__(self, channels: Channels, clock: Clock) -> None:
        self._channels = channels
        self._clock = clock
        self._known: Mapping[str, SandboxKind] = {}
        self._ask_at = 0.0
        self._asking = asyncio.Lock()

    async def of(self, template: str) -> SandboxKind | None:
        """What a template's sandboxes are like, the usual ones if it is empty; None when that was
        never learned."""
        if self._clock.monotonic() >= self._ask_at:
            async with self._asking:
                if self._clock.monotonic() >= self._ask_at:
                    await self._ask()
        return self._known.get(template or _USUAL)

    async def _ask(self) -> None:
        fresh_s = ASK_AGAIN_S
        try:
            stub = SandboxServiceStub(self._channels.to("executor"))
            request = sandbox_pb2.GetCapabilitiesRequest()
            answer = await stub.GetCapabilities(request, timeout=DEADLINE_S)
        except (grpc.aio.AioRpcError, FailedPrecondition):
            pass  # what was known before is the best that there is
        else:
            self._known = {
                found.template: _kind(found)
                for found in answer.backends
                if found.available and found.template
            }
            fresh_s = FRESH_S
        self._ask_at = self._clock.monotonic() + fresh_s


def _kind(found: sandbox_pb2.BackendCapabilities) -> SandboxKind:
    return SandboxKind(
        is_isolated=found.isolation != sandbox_pb2.ISOLATION_LEVEL_NONE,
        network=_NETWORKS.get(found.network_mode, Network.OPEN),
        keeps_workspace=found.keeps_workspace,
        machine=found.account,
    )
