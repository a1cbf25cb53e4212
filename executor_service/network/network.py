"""The network of one sandbox: its policy, and the connections that its commands make."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from executor_service.errors import EgressRefused, ExecutorError
from executor_service.link.streams import BoxStream, RemoteStreams
from executor_service.metrics import EgressMetrics
from executor_service.network.gate import Gate, Upstream
from executor_service.network.requests import (
    ESTABLISHED,
    BadRequest,
    Incoming,
    OtherHost,
    RequestHead,
    Sink,
    Source,
    response,
    send_request,
)
from executor_service.network.secrets import SandboxSecrets, Secret
from executor_service.network.tls import UNRECOGNIZED_NAME, ClientHello, NotTls, TlsServer, is_tls
from executor_service.records.network_policy import NetworkMode, NetworkPolicy, Rule, Target
from executor_service.supervisor.frames import MAX_STREAMS
from services.errors import Draining
from services.lifecycle import Workers, ungrouped
from services.rpc.public_addresses import address_of

_READ_BYTES = 64 * 1024
_STATUS = {
    "malformed": (400, "Bad Request"),
    "unresolved": (502, "Bad Gateway"),
    "unreachable": (502, "Bad Gateway"),
    "untrusted": (502, "Bad Gateway"),
}
_FORBIDDEN = (403, "Forbidden")
_log = logging.getLogger(__name__)


class CountingSink:
    """A sink that reports how many bytes it gets."""

    def __init__(self, sink: Sink, on_bytes: Callable[[int], None]) -> None:
        self._sink = sink
        self._on_bytes = on_bytes

    async def write(self, data: bytes) -> None:
        await self._sink.write(data)
        self._on_bytes(len(data))


async def copy(source: Source, sink: Sink, end: Callable[[], None] | None = None) -> None:
    """Copy everything, then signal the end."""
    while data := await source.read(_READ_BYTES):
        await sink.write(data)
    if end is not None:
        end()


async def relay(
    sending: Coroutine[Any, Any, None], receiving: Coroutine[Any, Any, None], *, wait: bool
) -> None:
    """Run both until they end; without `wait`, cancel sending when receiving ends."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(sending)
            await receiving
            if not wait:
                sender.cancel()


class Conversation:
    """A stream of a box and its connection to a host."""

    def __init__(self, stream: BoxStream, network: "SandboxNetwork") -> None:
        self.target: Target | None = None
        """Its target, once the request has named it."""
        self._stream = stream
        self._network = network
        self._input = Incoming(stream)
        self._rule: Rule | None = None
        self._is_counted = False
        self._is_answered = False
        self._idle = asyncio.timeout(None)

    async def run(self) -> None:
        """Serve it to its end; no command can make this fail."""
        try:
            await self._serve()
        except EgressRefused as refused:
            await self._refuse(refused)
        except BadRequest as error:
            outcome = "name_refused" if isinstance(error, OtherHost) else "malformed"
            await self._refuse(EgressRefused(outcome, str(error)))
        except (OSError, ExecutorError, EOFError):
            pass  # either side is gone or has stopped sending
        finally:
            self._stream.reset()

    async def _serve(self) -> None:
        async with asyncio.timeout(self._network.gate.deadlines.request_s):
            head = await self._input.head()
        async with self._idle:
            if head.method == "CONNECT":
                target = head.connect_target()
                if secrets := self._network.secrets.belonging_to(target):
                    await self._intercept(target, secrets)
                else:
                    await self._tunnel(target)
            else:
                await self._web(head, head.web_target())
        await self._stream.close()

    async def _tunnel(self, target: Target) -> None:
        rule = self._admit(target)
        async with self._network.gate.connect(target, self._network.lookups) as upstream:
            self._is_answered = True
            await self._stream.write(ESTABLISHED)
            await relay(
                self._send_tunnel(target, rule, upstream), self._receive(upstream), wait=True
            )

    async def _intercept(self, target: Target, secrets: list[Secret]) -> None:
        """Terminate a tunnel's TLS here, so that secrets can be inserted into its request."""
        network, rule = self._network, self._admit(target)
        context = await network.secrets.context(target.host)
        async with network.gate.connect(target, network.lookups, by_tls=True) as upstream:
            # The idle timeout starts here: a tunnel without TLS has no other deadline.
            sink = CountingSink(upstream, self._counter(rule, "out"))
            self._is_answered = True
            await self._stream.write(ESTABLISHED)
            await self._check_tunnel(target, rule)
            tls = TlsServer(self._input, self._stream, context)
            inside = Incoming(tls)
            try:
                async with asyncio.timeout(network.gate.deadlines.request_s):
                    await tls.handshake()
                    head = await inside.head()
                path = head.own_path(target)
                fields = await network.secrets.put_into(head.fields, secrets)
            except (BadRequest, EgressRefused) as problem:
                await tls.write(response(*_FORBIDDEN, str(problem)))
                raise
            back = CountingSink(tls, self._counter(rule, "in"))
            request = replace(head, fields=tuple(fields)).for_server(path)
            sending = send_request(request, inside, sink)
            await relay(sending, copy(upstream, back), wait=False)
            await tls.end()

    async def _web(self, head: RequestHead, target: Target) -> None:
        rule = self._admit(target)
        async with self._network.gate.connect(target, self._network.lookups) as upstream:
            self._count("allowed")
            self._is_answered = True
            sink = CountingSink(upstream, self._counter(rule, "out"))
            sending = send_request(head.for_server(head.origin_path()), self._input, sink)
            await relay(sending, self._receive(upstream), wait=False)

    async def _send_tunnel(self, target: Target, rule: Rule, upstream: Upstream) -> None:
        await self._check_tunnel(target, rule)
        await copy(self._input, CountingSink(upstream, self._counter(rule, "out")), upstream.end)

    async def _receive(self, upstream: Upstream) -> None:
        assert self._rule is not None
        sink = CountingSink(self._stream, self._counter(self._rule, "in"))
        await copy(upstream, sink, self._stream.end)

    async def _check_tunnel(self, target: Target, rule: Rule) -> None:
        try:
            await self._check_hello(target, rule)
        except EgressRefused as refused:
            self._count(refused.outcome)
            if is_tls(self._input.buffered):
                await self._stream.write(UNRECOGNIZED_NAME)
                await self._stream.close()
            raise
        self._count("allowed")

    def _admit(self, target: Target) -> Rule:
        """Return the rule that admits a target; later policy changes can end the connection."""
        self.target = target
        policy = self._network.policy
        self._rule = policy.rule_for(target)
        if self._rule is not None:
            return self._rule
        if policy.mode is NetworkMode.NONE:
            raise EgressRefused("not_listed", "this sandbox has no network")
        raise EgressRefused("not_listed", f"{target} is not on this sandbox's allow list")

    async def _check_hello(self, target: Target, rule: Rule) -> None:
        """Read a TLS client's hello: it must name the host of the tunnel."""
        must_be_tls = self._network.policy.requires_tls(target, rule)
        async with asyncio.timeout(self._network.gate.deadlines.request_s if must_be_tls else None):
            while not self._input.buffered:
                await self._input.more()
            if not must_be_tls and not is_tls(self._input.buffered):
                return
            hello, read = ClientHello(), 0
            try:
                while (name := hello.feed(self._input.buffered[read:])) is None:
                    read = len(self._input.buffered)
                    await self._input.more()
            except NotTls as error:
                raise EgressRefused("name_refused", f"the tunnel to {target}: {error}") from error
        # Clients send no name for an address.
        is_address = address_of(target.host) is not None
        if name.lower().removesuffix(".") != target.host and (name or not is_address):
            problem = f"the tunnel to {target} is used for {name[:80]!r}"
            raise EgressRefused("name_refused", problem)

    async def _refuse(self, refused: EgressRefused) -> None:
        self._count(refused.outcome)
        _log.debug("a connection of a sandbox is refused: %s", refused)
        if not self._is_answered:
            status, phrase = _STATUS.get(refused.outcome, _FORBIDDEN)
            try:
                await self._stream.write(response(status, phrase, str(refused)))
            except ExecutorError:
                return
            await self._stream.close()

    def _count(self, outcome: str) -> None:
        if not self._is_counted:
            self._is_counted = True
            self._network.metrics.count(self._rule, outcome)

    def _counter(self, rule: Rule, direction: str) -> Callable[[int], None]:
        """Return a counter of bytes, which also restarts the idle timeout."""
        metrics, loop = self._network.metrics, asyncio.get_running_loop()
        counter = metrics.bytes.labels(metrics.name(rule), direction)
        idle_s = self._network.gate.deadlines.idle_s
        self._idle.reschedule(loop.time() + idle_s)

        def passed(count: int) -> None:
            counter.inc(count)
            self._idle.reschedule(loop.time() + idle_s)

        return passed


PROXY_PORT = 3128
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_NO_PROXY = "localhost,127.0.0.1,::1"
PROXY_ENV: Mapping[str, str] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), _NO_PROXY),
}
"""The environment of commands that have a network."""
_LOOKUPS = 4


class Networks(Struct, frozen=True):
    """Makes the networks of sandboxes."""

    gate: Gate
    metrics: EgressMetrics
    workers: Workers
    secrets: tuple[Secret, ...] = ()

    def make(self, key: bytes) -> "SandboxNetwork":
        """Makes a sandbox's network; `key` is secret and the sandbox's own."""
        secrets = SandboxSecrets(self.secrets, key)
        return SandboxNetwork(self.gate, self.metrics, self.workers, secrets)


class SandboxNetwork:
    """Connects the commands of one box to what its policy allows."""

    def __init__(
        self, gate: Gate, metrics: EgressMetrics, workers: Workers, secrets: SandboxSecrets
    ) -> None:
        self.gate = gate
        self.metrics = metrics
        self.secrets = secrets
        self.policy = NetworkPolicy()
        self.lookups = asyncio.Semaphore(_LOOKUPS)
        """Slots for name lookups, so that no sandbox takes too many."""
        self._workers = workers
        self._conversations: dict[asyncio.Task[None], Conversation] = {}
        self._listens = False

    def apply(self, policy: NetworkPolicy) -> None:
        """Replace the policy; connections that the new one does not allow end at once."""
        self.policy = policy
        for task, conversation in self._conversations.items():
            target = conversation.target
            if target is not None and policy.rule_for(target) is None:
                task.cancel()

    async def announce(self, streams: RemoteStreams) -> None:
        """Start or stop the box's proxy as needed; fails with ProxyRefused or the link's error."""
        if self.policy.mode is not NetworkMode.NONE:
            self._listens = True
            authority = await self.secrets.authority()
            await streams.listen(PROXY_PORT, PROXY_ENV, authority, self._serve)
        elif self._listens or self.policy.generation > 1:
            await streams.stop()
            self._listens = False

    def _serve(self, stream: BoxStream) -> None:
        # A stream that is gone frees its place before its conversation has ended.
        if len(self._conversations) >= MAX_STREAMS:
            stream.reset()
            return
        conversation = Conversation(stream, self)
        try:
            task = self._workers.start(f"stream {stream.ident}", conversation.run())
        except Draining:
            stream.reset()
            return
        stream.when_aborted = task.cancel
        self._conversations[task] = conversation
        self.metrics.open.inc()
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        del self._conversations[task]
        self.metrics.open.dec()
