"""Network policies as callers have them: given with a sandbox, replaced, kept over a restart."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from executor_service.config import ExecutorConfig
from hermes.executor.v1 import network_pb2, sandbox_pb2
from services.config.settings import ConfigError, Settings
from services.errors import Reason
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings, refused, serving
from tests.support.ssh_server import ssh_server
from tests.support.world import FETCH, FRIENDLY, HOSTILE, World

OPEN, NONE = network_pb2.NETWORK_MODE_OPEN, network_pb2.NETWORK_MODE_NONE
ALLOW_LIST = network_pb2.NETWORK_MODE_ALLOW_LIST


@pytest.fixture(params=BUBBLEWRAP_FIRST)
async def settings(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Settings]:
    """Those of each backend in turn; no box is left at the end."""
    settings = executor_settings(tmp_path, request.param)
    yield settings
    await end_boxes(settings)


def allow(world: World, *hosts: str) -> network_pb2.NetworkPolicy:
    ports = (world.http_port, world.https_port)
    rules = [network_pb2.NetworkRule(host=host, ports=ports) for host in hosts]
    return network_pb2.NetworkPolicy(mode=ALLOW_LIST, rules=rules)


async def fetch(client: Client, lease: sandbox_pb2.Lease, world: World, *urls: str) -> list[str]:
    """What a command in a sandbox gets from each address."""
    env = {"URLS": " ".join(urls), "AUTHORITY": world.authority}
    seen = await client.run(lease, "/usr/bin/env", "python3", "-c", FETCH, env=env)
    assert seen.code == 0, seen
    answers: list[str] = json.loads(seen.stdout)
    return answers


async def replace(
    client: Client, policy: network_pb2.NetworkPolicy, session: str = "session"
) -> tuple[sandbox_pb2.Lease, int]:
    """The lease of the session's next owner, and the generation of its policy."""
    acquired = await client.acquire(session, network_policy=policy)
    return acquired.lease, acquired.sandbox.network_policy.generation


async def policy_of(client: Client, lease: sandbox_pb2.Lease) -> network_pb2.NetworkPolicy:
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=lease.sandbox_id, profile=client.profile)
    return (await client.sandboxes.GetSandbox(request)).sandbox.network_policy


async def test_a_sandbox_has_no_network_unless_it_is_given_one(
    settings: Settings, world: World
) -> None:
    urls = (world.http("good.test"), world.https("evil.test"))
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        none = (await client.acquire()).lease
        assert (await policy_of(client, none)) == network_pb2.NetworkPolicy(mode=NONE, generation=1)
        assert "proxy" not in (await client.output(none, "env")).lower()
        failures = await fetch(client, none, world, *urls)
        assert len(failures) == 2
        assert not {FRIENDLY, HOSTILE} & set(failures)
        assert not world.seen
        some = (await client.acquire(network_policy=allow(world, "good.test"))).lease
        answers = await fetch(client, some, world, *urls)
        assert answers == [FRIENDLY, "Tunnel connection failed: 403 Forbidden"]
        every = (await client.acquire(network_policy=network_pb2.NetworkPolicy(mode=OPEN))).lease
        assert await fetch(client, every, world, *urls) == [FRIENDLY, HOSTILE]
        counted = executor.metric(
            "hermes_egress_connections_total", rule="good.test", outcome="allowed"
        )
        assert counted == 1


async def test_a_policy_is_replaced_as_a_whole(settings: Settings, world: World) -> None:
    url = world.http("good.test")
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        _, generation = await replace(client, allow(world, "good.test"))
        assert generation == 1
        lease, generation = await replace(client, allow(world, "evil.test"))
        assert generation == 2
        assert await fetch(client, lease, world, url) == ["403"]
        assert (await policy_of(client, lease)).rules[0].host == "evil.test"
        # A next owner that gives no policy, or the same, changes nothing.
        for same in (network_pb2.NetworkPolicy(), allow(world, "evil.test")):
            lease, generation = await replace(client, same)
            assert (generation, (await policy_of(client, lease)).generation) == (2, 2)
        lease, generation = await replace(client, allow(world, "good.test"))
        assert (generation, (await policy_of(client, lease)).generation) == (3, 3)
        assert await fetch(client, lease, world, url) == [FRIENDLY]
        lease, generation = await replace(client, network_pb2.NetworkPolicy(mode=NONE))
        assert generation == 4
        assert "proxy" not in (await client.output(lease, "env")).lower()


async def test_a_policy_outlives_the_executor(settings: Settings, world: World) -> None:
    url = world.https("good.test")
    async with Process(settings) as process, process.client() as client:
        for session in ("kept", "closed"):
            await replace(client, allow(world, "good.test"), session)
        await replace(client, network_pb2.NetworkPolicy(mode=NONE), "closed")
        await process.kill()
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        kept = (await client.acquire("kept")).lease
        assert await fetch(client, kept, world, url, world.http("evil.test")) == [FRIENDLY, "403"]
        assert (await policy_of(client, kept)).generation == 1
        closed = (await client.acquire("closed")).lease
        assert (await policy_of(client, closed)).generation == 2
        assert "proxy" not in (await client.output(closed, "env")).lower()


async def test_wrong_policies_are_refused(settings: Settings) -> None:
    policy, rule = network_pb2.NetworkPolicy, network_pb2.NetworkRule
    wrong = [
        policy(mode=cast("network_pb2.NetworkMode.ValueType", 99)),
        policy(mode=OPEN, rules=[rule(host="good.test")]),
        policy(mode=ALLOW_LIST, rules=[rule(host="good.test")] * 257),
    ]
    async with serving(settings) as executor, executor.client() as client:
        for one in wrong:
            assert await refused(replace(client, one)) is Reason.INVALID_ARGUMENT


async def test_templates_have_policies_of_their_own(tmp_path: Path, world: World) -> None:
    ports = f"{world.http_port},{world.https_port}"
    settings = await configured(
        tmp_path,
        "executor:\n"
        f"  network: {{mode: allow_list, hosts: ['good.test:{ports}']}}\n"
        "  templates:\n"
        "    closed: {network_mode: none}\n"
        "    free: {network_mode: open}\n",
    )
    urls = (world.http("good.test"), world.http("evil.test"))
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        usual = (await client.acquire()).lease
        assert await fetch(client, usual, world, *urls) == [FRIENDLY, "403"]
        free = (await client.acquire(template="free")).lease
        assert await fetch(client, free, world, *urls) == [FRIENDLY, HOSTILE]
        closed = (await client.acquire(template="closed")).lease
        assert (await policy_of(client, closed)).mode == NONE


async def test_ranges_of_the_cluster_are_refused_by_the_configuration(
    tmp_path: Path, world: World
) -> None:
    text = "executor: {network: {mode: open, refused: [1.1.1.0/24]}}"
    async with serving(await configured(tmp_path, text)) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        assert await fetch(client, lease, world, "http://1.1.1.1/") == ["403"]
        labels = {"rule": "open", "outcome": "address_refused"}
        assert executor.metric("hermes_egress_connections_total", **labels) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{mode: sometimes}",
        "{mode: open, hosts: [example.com]}",
        "{mode: allow_list, hosts: ['https://example.com']}",
        "{mode: open, refused: [10.0.0.1/8]}",
    ],
)
async def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str) -> None:
    settings = await configured(tmp_path, f"executor: {{network: {text}}}")
    with pytest.raises(ConfigError, match=r"executor\.network"):
        settings.load(ExecutorConfig)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Settings]:
    """Those of commands on another machine, with its network."""
    with ssh_server() as server:
        environ = server.environ
        yield executor_settings(tmp_path, "ssh", **environ)


@pytest.mark.slow
async def test_commands_with_the_machine_s_network_are_held_to_nothing(
    elsewhere: Settings, world: World
) -> None:
    async with serving(elsewhere, world.gate()) as executor, executor.client() as client:
        request = sandbox_pb2.GetCapabilitiesRequest()
        (found,) = (await client.sandboxes.GetCapabilities(request)).backends
        assert (found.network_mode, list(found.network_modes)) == (0, [])
        for mode in (NONE, OPEN):
            call = client.acquire(network_policy=network_pb2.NetworkPolicy(mode=mode))
            assert await refused(call) is Reason.BACKEND_UNAVAILABLE
        acquired = await client.acquire("session")
        assert not acquired.sandbox.HasField("network_policy")
        url = f"http://{FRIENDLY}:{world.http_port}/"
        assert await fetch(client, acquired.lease, world, url) == [FRIENDLY]
        call = replace(client, network_pb2.NetworkPolicy(mode=NONE))
        assert await refused(call) is Reason.BACKEND_UNAVAILABLE
        # What is refused takes nothing from the owner.
        assert await fetch(client, acquired.lease, world, url) == [FRIENDLY]


async def configured(home: Path, text: str) -> Settings:
    """Settings with such a config.yaml."""
    await asyncio.to_thread((home / "config.yaml").write_text, text)
    return await asyncio.to_thread(executor_settings, home, "bubblewrap")
