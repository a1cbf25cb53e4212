"""What every backend promises whose boxes have no network: commands reach what a policy allows."""

import json

from executor_service.link.exec_handle import ExecHandle
from executor_service.records.network_policy import NetworkMode, NetworkPolicy
from services.lifecycle import Workers
from tests.support.boxes import Console, Recorder, Yard, open_console
from tests.support.world import DIRECT, FRIENDLY, HOSTILE, World

OPEN = NetworkPolicy(NetworkMode.OPEN)
MIB = 1024 * 1024
FAILURES = {"OSError", "ConnectionRefusedError", "gaierror"}
"""How connections fail where there is no network; none of them takes its time."""


class EgressSuite:
    """Run by tests/contract/test_backends.py against each backend that reports these policies."""

    async def test_it_reports_all_policies(self, yard: Yard) -> None:
        assert yard.capabilities.network_policies == tuple(NetworkMode)

    async def test_without_a_policy_nothing_is_reached(
        self, yard: Yard, console: Console, world: World
    ) -> None:
        assert "proxy" not in (await console.output("env")).lower()
        assert set(await direct(console, world)) <= {
            "OSError",
            "ConnectionRefusedError",
            "gaierror",
        }
        async with world.connected(yard, NetworkPolicy()) as (other, _):
            assert set(await direct(other, world)) <= FAILURES
        assert not world.seen

    async def test_an_allow_list_lets_through_what_it_names(self, yard: Yard, world: World) -> None:
        async with world.connected(yard, world.allow("good.test", "*.good.test")) as (console, _):
            reached = [
                world.http("good.test"),
                world.https("good.test"),
                world.https("api.good.test"),
            ]
            refused = [world.http("evil.test"), world.https("evil.test"), world.http(FRIENDLY)]
            answers = await world.fetch(console, *reached, *refused)
            assert answers[:3] == [FRIENDLY] * 3
            assert answers[3:] == ["403", "Tunnel connection failed: 403 Forbidden", "403"]
            # The way through the proxy is the only one.
            assert "connected" not in (await direct(console, world))[1:]
        assert {seen.host.partition(":")[0] for seen in world.seen} == {
            "good.test",
            "api.good.test",
        }
        assert world.counted("good.test", "allowed") == 2
        assert world.counted("*.good.test", "allowed") == 1
        assert world.counted("none", "not_listed") == 3
        assert world.passed("good.test", "in") > 0
        assert world.passed("good.test", "out") > 0

    async def test_an_open_network_has_every_public_address(self, yard: Yard, world: World) -> None:
        async with world.connected(yard, OPEN) as (console, _):
            urls = [world.https("good.test"), world.http("evil.test"), world.http(FRIENDLY)]
            private = [world.http("inside.test"), world.https("inside.test")]
            answers = await world.fetch(console, *urls, *private)
            assert answers[:3] == [FRIENDLY, HOSTILE, FRIENDLY]
            assert answers[3:] == ["403", "Tunnel connection failed: 403 Forbidden"]
        assert world.counted("open", "allowed") == 3
        assert world.counted("open", "address_refused") == 2

    async def test_what_is_sent_and_received_is_whole(self, yard: Yard, world: World) -> None:
        async with world.connected(yard, world.allow("good.test")) as (console, _):
            download = world.https("good.test", f"/bytes?n={8 * MIB}")
            assert await world.fetch(console, download) == [str(8 * MIB)]
            urls = [world.http("good.test"), world.https("good.test")]
            answers = await world.fetch(console, *urls, UPLOAD=str(4 * MIB + 1))
            assert answers == [FRIENDLY] * 2
        assert [seen.body_bytes for seen in world.seen[-2:]] == [4 * MIB + 1] * 2
        assert world.passed("good.test", "out") > 8 * MIB

    async def test_more_connections_than_there_are_places_take_turns(
        self, yard: Yard, world: World
    ) -> None:
        async with world.connected(yard, world.allow("good.test")) as (console, _):
            urls = [world.http("good.test")] * 150
            assert await world.fetch(console, *urls, AT_ONCE="40") == [FRIENDLY] * 150

    async def test_another_policy_ends_what_it_does_not_allow(
        self, yard: Yard, world: World
    ) -> None:
        async with world.connected(yard, OPEN) as (console, network):
            slow = await started(console, world)
            await slow.until(lambda r: len(r.stdout) > 20)
            network.apply(world.allow("good.test"))
            before = len(slow.stdout)
            await slow.until(lambda r: len(r.stdout) > before)
            network.apply(world.allow("evil.test"))
            await slow.exit(timeout_s=10)
            assert await world.fetch(console, world.http("good.test")) == ["403"]
            network.apply(NetworkPolicy(generation=4))
            await network.announce(console.link.streams)
            assert "proxy" not in (await console.output("env")).lower()
            assert (await direct(console, world))[0] == "ConnectionRefusedError"

    async def test_a_link_that_breaks_ends_connections_and_no_more(
        self, yard: Yard, world: World
    ) -> None:
        again: list[Recorder] = []

        def adopt(command: ExecHandle) -> Recorder:
            again.append(Recorder(command))
            return again[0]

        async with Workers() as workers, yard.box() as box:
            network = world.network(workers)
            network.apply(world.allow("good.test"))
            async with open_console(yard.backend, box) as console:
                await network.announce(console.link.streams)
                slow = await started(console, world)
            acked = {slow.command.exec_id: (len(slow.stdout), len(slow.stderr))}
            async with open_console(yard.backend, box, adopt=adopt, acked=acked) as console:
                await network.announce(console.link.streams)
                exit_ = await again[0].exit(timeout_s=10)
                assert (exit_.code, "Error" in again[0].stderr) == (1, True)
                assert await world.fetch(console, world.https("good.test")) == [FRIENDLY]


SLOW = """
import http.client, os
proxy = http.client.HTTPConnection("127.0.0.1", 3128, timeout=30)
proxy.request("GET", os.environ["URL"])
answer = proxy.getresponse()
while True:
    line = answer.readline()
    assert line, "it has ended"
    print(line.decode(), end="", flush=True)
"""
"""Gets something that never ends, and fails if it does."""


async def started(console: Console, world: World) -> Recorder:
    """A command that is in the middle of something."""
    env = {"URL": world.http("good.test", "/slow")}
    slow = await console.start("/usr/bin/env", "python3", "-c", SLOW, env=env)
    await slow.until(lambda r: len(r.stdout) > 20)
    return slow


async def direct(console: Console, world: World) -> list[str]:
    """What comes of going past the proxy; the first is the proxy itself."""
    places = [
        ("tcp", "127.0.0.1", 3128),
        ("tcp", FRIENDLY, world.http_port),
        ("tcp", "1.1.1.1", 443),
        ("udp", "8.8.8.8", 53),
        ("tcp", "2606:4700::1111", 443),
        ("dns", "good.test", 0),
    ]
    recorder = await console.start("/usr/bin/env", "python3", "-c", DIRECT, json.dumps(places))
    await recorder.exit()
    return recorder.stdout.split()
