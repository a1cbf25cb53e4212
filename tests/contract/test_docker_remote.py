"""Boxes on an engine that is reached over TLS or ssh and does not see this host's files."""

import asyncio
import dataclasses
import os
import ssl
import uuid
from asyncio import to_thread
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import docker
import pytest

from executor_service.backends.base import MIB, WORKSPACE, BoxSpec, Limits
from executor_service.backends.docker.backend import DockerBackend
from executor_service.backends.docker.engine import Engine, EngineAddress
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import DockerConfig
from executor_service.errors import BackendUnavailable, WorkspaceInUse
from executor_service.link.link import Hello, open_link
from services.rpc.auth import Identity
from services.rpc.certs import init, issue
from tests.contract.backend_suite_workspaces import WorkspaceSuite, filled, store_of
from tests.support.boxes import SECRET, SECRET_SHA256, Yard
from tests.support.docker_engine import docker_client, run_in
from tests.support.ssh_to_engine import ssh_to_engine

pytestmark = pytest.mark.slow

ENGINE = "/var/run/docker.sock"


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    engine_reader, engine_writer = await asyncio.open_unix_connection(ENGINE)
    await asyncio.gather(pump(reader, engine_writer), pump(engine_reader, writer))


@dataclasses.dataclass(frozen=True)
class Certificates:
    """Files for a server and a client that trust one authority."""

    authority: Path
    client: Path
    server_context: ssl.SSLContext


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    now = datetime.now(UTC)
    authority = init(tmp_path, now)
    server = issue(tmp_path, Identity.EXECUTOR, ["127.0.0.1"], now)
    client = issue(tmp_path, Identity.AGENT, (), now)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server.certificate, server.key)
    return Certificates(authority, client.certificate, context)


@pytest.fixture
async def over_tls(certificates: Certificates) -> AsyncIterator[DockerConfig]:
    """The real engine behind TLS that demands a certificate of its clients."""
    context = certificates.server_context
    server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    yield DockerConfig(
        host=f"tcp://127.0.0.1:{port}",
        ca=str(certificates.authority),
        certificate=str(certificates.client),
        key=str(certificates.client.with_suffix(".key")),
    )
    server.close()


@pytest.fixture
def over_ssh(monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerConfig]:
    """The real engine behind a real ssh server with a key and a known host of its own."""
    with ssh_to_engine() as server:
        wrapper = server.folder / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {server.ssh} -F {server.folder}/config "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        yield DockerConfig(host=server.url)


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[docker.DockerClient]:
    """The engine as seen from its own host, left without volumes of this process's tests."""
    client = docker_client()
    yield client
    ours = tmp_path_factory.getbasetemp()
    for volume in client.volumes.list(filters={"label": WORKSPACE}):
        if Path(volume.attrs["Labels"][WORKSPACE]).is_relative_to(ours):
            volume.remove()
    client.close()


@pytest.fixture
def supervisor() -> bytes:
    return build_zipapp()


async def test_without_ssh_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = Engine(EngineAddress("ssh://me@127.0.0.1"))
    with pytest.raises(BackendUnavailable, match="no program ssh: install openssh-client"):
        await engine.ask("GET", "/version")
    await engine.close()


async def test_boxes_over_ssh(
    engine: docker.DockerClient, supervisor: bytes, over_ssh: DockerConfig, tmp_path: Path
) -> None:
    assert await use_boxes(engine, supervisor, over_ssh, tmp_path / "notes") == ["", "kept"]


class TestWorkspaces(WorkspaceSuite):
    """Those of an engine elsewhere; see backend_suite_workspaces."""

    @pytest.fixture
    async def yard(
        self, engine: docker.DockerClient, over_tls: DockerConfig, tmp_path: Path
    ) -> AsyncIterator[Yard]:
        zipapp = await to_thread(build_zipapp)

        def make(owner: str, folder: Path) -> DockerBackend:
            return DockerBackend(owner, folder, zipapp, over_tls)

        opened = await Yard.open(make, f"test-{uuid.uuid4().hex}", tmp_path)
        yield opened
        await opened.close()

    async def test_one_that_a_box_has_is_not_removed(self, yard: Yard) -> None:
        store = await store_of(yard)
        async with yard.box() as box:
            with pytest.raises(WorkspaceInUse):
                await store.remove(box.workspace)
        await store.remove(box.workspace)
        assert await store.present(box.workspace.parent) == []

    async def test_what_a_box_has_is_not_removed_although_it_is_empty(self, yard: Yard) -> None:
        store = await store_of(yard)
        used, missing = [(await to_thread(yard.spec)).workspace for _ in range(2)]
        empty, _ = await filled(yard, "true")
        async with yard.box(workspace=used):
            assert await store.remove_empty([used, missing, empty]) == [missing, empty]
        await store.remove(used)


async def test_an_unknown_host_is_refused(over_ssh: DockerConfig, tmp_path: Path) -> None:
    known_by_another_name = DockerConfig(host=over_ssh.host.replace("127.0.0.1", "localhost"))
    backend = DockerBackend("o", tmp_path, b"", known_by_another_name)
    capabilities = await backend.probe()
    await backend.close()
    assert not capabilities.available
    assert "Host key verification failed" in capabilities.reason


async def use_boxes(
    engine: docker.DockerClient, supervisor: bytes, config: DockerConfig, notes: Path
) -> list[str]:
    """What two boxes of one workspace, one after the other, say about a file of the first."""
    said: list[str] = []
    owner = f"test-{uuid.uuid4().hex}"
    backend = DockerBackend(owner, notes, supervisor, config)
    limits = Limits(memory_bytes=128 * MIB, tmp_bytes=16 * MIB)
    workspace = Path("/seen/by/nobody", owner)
    try:
        assert (await backend.probe()).available
        for command in ("echo kept >file", "grep kept file"):
            key = f"b{uuid.uuid4().hex}"
            spec = BoxSpec(key, owner, "pool", workspace, limits, secret_sha256=SECRET_SHA256)
            box = await backend.create(spec)
            hello = Hello(box.key, SECRET, epoch=1)
            async with open_link(await backend.connect(box), hello, lambda _: None) as link:
                await link.ping(10)
                ran = await to_thread(run_in, engine, box.native_id, "sh", "-c", command)
                said.append(ran[1])
            assert await backend.list_boxes() == [box]
            await backend.destroy(box)
        assert await backend.list_boxes() == []
        assert not await to_thread(notes.exists)
        return said
    finally:
        for box in await backend.list_boxes():
            await backend.destroy(box)
        await backend.close()


@pytest.mark.parametrize("lacking", ["ca", "certificate"])
async def test_tls_is_checked_both_ways(
    engine: docker.DockerClient, over_tls: DockerConfig, lacking: str, tmp_path: Path
) -> None:
    config = over_tls.model_copy(update={lacking: ""})
    backend = DockerBackend("o", tmp_path, b"", config)
    capabilities = await backend.probe()
    await backend.close()
    assert not capabilities.available
    assert "no Docker engine answers" in capabilities.reason
