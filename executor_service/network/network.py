"""The network of one sandbox: its policy, and the connections that it has."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from executor_service.link.streams import BoxStream, RemoteStreams
from executor_service.network.conversation import Conversation, EgressContext
from executor_service.network.gate import Gate
from executor_service.network.metrics import EgressMetrics
from executor_service.network.secrets import SandboxSecrets, Secret
from executor_service.records.network_policy import NetworkMode, NetworkPolicy
from executor_service.supervisor.frames import MAX_STREAMS
from services.errors import Draining
from services.lifecycle import Workers

PROXY_PORT = 3128
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_NO_PROXY = "localhost,127.0.0.1,::1"
PROXY_ENV: Mapping[str, str] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), _NO_PROXY),
}
"""What commands find in their environment where a policy allows something."""
_LOOKUPS = 4


class Networks(Struct, frozen=True):
    """Makes the networks of sandboxes."""

    gate: Gate
    metrics: EgressMetrics
    workers: Workers
    secrets: tuple[Secret, ...] = ()
    """Those that commands may ask for."""

    def make(self, key: bytes) -> "SandboxNetwork":
        """The network of one more sandbox, with a key that is secret and the sandbox's own."""
        secrets = SandboxSecrets(self.secrets, key)
        return SandboxNetwork(self.gate, self.metrics, self.workers, secrets)


class SandboxNetwork:
    """Lets the commands of one box connect to what its policy allows."""

    def __init__(
        self, gate: Gate, metrics: EgressMetrics, workers: Workers, secrets: SandboxSecrets
    ) -> None:
        self.secrets = secrets
        """What commands may use and not see."""
        self._workers = workers
        self._metrics = metrics
        self._policy = NetworkPolicy()
        lookups = asyncio.Semaphore(_LOOKUPS)
        self._road = EgressContext(gate, metrics, lambda: self._policy, secrets, lookups)
        self._conversations: dict[asyncio.Task[None], Conversation] = {}
        self._listens = False

    @property
    def policy(self) -> NetworkPolicy:
        """What may be reached now."""
        return self._policy

    def apply(self, policy: NetworkPolicy) -> None:
        """Replace the policy; connections that the new one does not allow end at once."""
        self._policy = policy
        for task, conversation in self._conversations.items():
            target = conversation.target
            if target is not None and policy.rule_for(target) is None:
                task.cancel()

    async def announce(self, streams: RemoteStreams) -> None:
        """Have the box offer its commands what the policy allows, over a link that is up.

        Fails with ProxyRefused, or how the link ended.
        """
        if self._policy.mode is not NetworkMode.NONE:
            self._listens = True
            authority = await self.secrets.authority()
            await streams.listen(PROXY_PORT, PROXY_ENV, authority, self._serve)
        elif self._listens or self._policy.generation > 1:
            await streams.stop()
            self._listens = False

    def _serve(self, stream: BoxStream) -> None:
        # A stream that has gone frees its place before its conversation has ended.
        if len(self._conversations) >= MAX_STREAMS:
            stream.reset()
            return
        conversation = Conversation(stream, self._road)
        try:
            task = self._workers.start(f"stream {stream.ident}", conversation.run())
        except Draining:
            stream.reset()
            return
        stream.when_aborted = task.cancel
        self._conversations[task] = conversation
        self._metrics.open.inc()
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._conversations[task]
        self._metrics.open.dec()
