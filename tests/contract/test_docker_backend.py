"""What the docker backend promises beyond the seam: whose boxes, and nothing left over."""

import asyncio
import io
import tarfile
import time
import uuid
import zipfile
from asyncio import to_thread
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import docker
import pytest
from msgspec.structs import replace

from executor_service.backends.base import MIB, Box, BoxSpec, Limits
from executor_service.backends.docker.backend import DockerBackend
from executor_service.backends.docker.supervisor_volume import supervisor_volume
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import DockerConfig
from executor_service.errors import BoxCreateFailed
from executor_service.link.byte_streams import ByteStream
from executor_service.link.link import Hello, open_link
from tests.support.boxes import SECRET, SECRET_SHA256
from tests.support.docker_engine import SANDBOX_IMAGE

LIMITS = Limits(memory_bytes=128 * MIB, tmp_bytes=16 * MIB)


@pytest.fixture
def supervisor() -> bytes:
    return build_zipapp()


@pytest.fixture
def owner() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a backend keeps what it needs of its boxes."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture
def spec(owner: str, tmp_path: Path) -> BoxSpec:
    key = f"b{uuid.uuid4().hex}"
    return BoxSpec(key, owner, "pool", tmp_path, LIMITS, secret_sha256=SECRET_SHA256)


@pytest.fixture
async def backend(
    engine: docker.DockerClient, owner: str, notes: Path, supervisor: bytes
) -> AsyncIterator[DockerBackend]:
    backend = DockerBackend(owner, notes, supervisor, DockerConfig())
    yield backend
    for box in await backend.list_boxes():
        await backend.destroy(box)
    await backend.close()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def containers_of(engine: docker.DockerClient, owner: str) -> list[str]:
    filters: dict[str, str | list[str] | bool] = {"label": f"org.hermes.owner={owner}"}
    return [
        found.id or "" for found in engine.containers.list(all=True, sparse=True, filters=filters)
    ]


def wait_for_containers(engine: docker.DockerClient, owner: str, count: int) -> None:
    while len(containers_of(engine, owner)) != count:
        time.sleep(0.001)


async def greet(stream: ByteStream, box: Box) -> None:
    """Say hello to the supervisor, wait until it is ready, and leave."""
    hello = Hello(box.key, SECRET, epoch=1)
    async with open_link(stream, hello, lambda _command: None) as link:
        await link.ping(10)


async def test_foreign_containers_are_left_alone(
    backend: DockerBackend, engine: docker.DockerClient, spec: BoxSpec
) -> None:
    foreign = await to_thread(engine.containers.run, SANDBOX_IMAGE, ["sleep", "60"], detach=True)
    try:
        box = await backend.create(spec)
        await backend.destroy(replace(box, key="other", native_id=foreign.id or ""))
        await backend.destroy(replace(box, native_id=foreign.id or ""))
        await to_thread(foreign.reload)
        assert foreign.status == "running"
        assert await to_thread(containers_of, engine, spec.owner) == []
    finally:
        await to_thread(foreign.remove, force=True)


async def test_a_box_whose_supervisor_ends_is_gone_by_itself(
    backend: DockerBackend, engine: docker.DockerClient, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    await greet(await backend.connect(box), box)
    await to_thread(engine.api.kill, box.native_id, "SIGKILL")
    await asyncio.wait_for(to_thread(wait_for_containers, engine, spec.owner, 0), 20)
    assert await backend.list_boxes() == []


async def test_boxes_that_are_gone_leave_no_descriptor_open(
    backend: DockerBackend, spec: BoxSpec
) -> None:
    await backend.destroy(await backend.create(spec))
    before = await to_thread(open_descriptors)
    for _ in range(3):
        await backend.destroy(await backend.create(spec))
    assert await to_thread(open_descriptors) == before


async def test_a_cancelled_create_leaves_no_box(
    backend: DockerBackend, engine: docker.DockerClient, spec: BoxSpec
) -> None:
    await backend.list_boxes()
    creating = asyncio.create_task(backend.create(spec))
    await to_thread(wait_for_containers, engine, spec.owner, 1)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert await to_thread(containers_of, engine, spec.owner) == []


async def test_refusals_say_what_is_wrong_and_leave_nothing(
    backend: DockerBackend, engine: docker.DockerClient, spec: BoxSpec
) -> None:
    def but(**changes: object) -> BoxSpec:
        return replace(spec, **changes)  # pyright: ignore[reportArgumentType]

    with pytest.raises(BoxCreateFailed, match="/nonexistent"):
        await backend.create(but(workspace=Path("/nonexistent/folder")))
    with pytest.raises(BoxCreateFailed, match="memory limit must exceed"):
        await backend.create(but(limits=Limits(memory_bytes=64 * MIB)))
    assert await to_thread(containers_of, engine, spec.owner) == []
    await backend.create(spec)
    with pytest.raises(BoxCreateFailed, match="already in use"):
        await backend.create(spec)
    assert len(await to_thread(containers_of, engine, spec.owner)) == 1


async def test_what_fails_at_the_start_is_removed(
    engine: docker.DockerClient, spec: BoxSpec, notes: Path, supervisor: bytes
) -> None:
    options = DockerConfig(runtime="no-such-runtime")
    backend = DockerBackend(spec.owner, notes, supervisor, options)
    with pytest.raises(BoxCreateFailed, match="no-such-runtime"):
        await backend.create(spec)
    await backend.close()
    assert await to_thread(containers_of, engine, spec.owner) == []
    assert await to_thread(lambda: list(notes.glob("boxes/*"))) == []


def test_executors_that_start_together_share_one_supervisor_volume(
    engine: docker.DockerClient,
) -> None:
    packed = io.BytesIO()
    source = f"# {uuid.uuid4()}"
    with zipfile.ZipFile(packed, "w") as zipapp:
        zipapp.writestr("__main__.py", source)
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(supervisor_volume, engine, SANDBOX_IMAGE, packed.getvalue())
            for _ in range(6)
        ]
        (volume,) = {each.result() for each in asked}
    name = volume.rpartition("-")[0]
    try:
        found = engine.volumes.list(filters={"name": name})
        assert [each.name for each in found] == [volume]
        digest: bytes = engine.containers.run(
            SANDBOX_IMAGE,
            ["sha256sum", "/v/__main__.py"],
            volumes={volume: {"bind": "/v", "mode": "ro"}},
            remove=True,
        )
        assert digest.decode().startswith(sha256(source.encode()).hexdigest())
    finally:
        engine.containers.get(name).remove()
        engine.volumes.get(volume).remove()


async def test_probe_tells_what_is_missing(engine: docker.DockerClient, notes: Path) -> None:
    async def reason(options: DockerConfig) -> str:
        backend = DockerBackend("probe", notes, b"", options)
        capabilities = await backend.probe()
        await backend.close()
        assert not capabilities.available
        return capabilities.reason

    assert "no Docker engine answers" in await reason(
        DockerConfig(host="unix:///nonexistent/docker.sock")
    )
    assert "make sandbox-image" in await reason(DockerConfig(image="hermes-no-such:1"))
    assert "no runtime no-such" in await reason(DockerConfig(runtime="no-such"))


@pytest.fixture
def image_without_python(engine: docker.DockerClient) -> Iterator[str]:
    name = f"hermes-test-{uuid.uuid4().hex}"
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    engine.api.import_image_from_data(empty.getvalue(), repository=name, tag="1")
    yield f"{name}:1"
    engine.images.remove(f"{name}:1")


async def test_probe_refuses_an_image_without_python(
    image_without_python: str, notes: Path
) -> None:
    backend = DockerBackend("probe", notes, b"", DockerConfig(image=image_without_python))
    capabilities = await backend.probe()
    await backend.close()
    assert not capabilities.available
    assert "python3 of the image" in capabilities.reason
