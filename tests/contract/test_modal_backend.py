"""What the modal backend promises beyond the seam: whose boxes, and what happens on failures."""

import asyncio
import contextlib
import io
import time
import uuid
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from executor_service.backends.base import MIB, BoxSpec, Limits
from executor_service.backends.modal.account import LONGEST_LIFE_S, ModalConfig
from executor_service.backends.modal.backend import ModalBackend
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.errors import BackendUnavailable, BoxCreateFailed, BoxLost, LinkClosed
from executor_service.link.exec_handle import ExecHandle
from tests.fakes.modal.service import ModalService, modal_service
from tests.support.boxes import Recorder, new_spec, open_console
from tests.support.requirements import require

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

Make = Callable[..., ModalBackend]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ModalService]:
    """One server for all tests."""
    async with modal_service(tmp_path_factory.mktemp("cloud")) as service:
        require("modal", not service.obstacle, service.obstacle)
        yield service


@pytest.fixture
def owner() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def spec(owner: str, tmp_path: Path) -> BoxSpec:
    return new_spec(owner, tmp_path)


@pytest_asyncio.fixture(loop_scope="module")
async def make(cloud: ModalService, owner: str, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes backends, and in the end leaves no box of theirs."""
    made: list[ModalBackend] = []

    def make(
        whose: str = owner,
        supervisor: bytes = b"",
        lifetime_s: int = LONGEST_LIFE_S,
        **changes: Any,
    ) -> ModalBackend:
        chosen = cloud.config(**changes)
        sent = supervisor or build_zipapp()
        parts = (whose, tmp_path / "program", sent, chosen, tmp_path)
        made.append(ModalBackend(*parts, lifetime_s))
        return made[-1]

    yield make
    await cloud.fail("SandboxCreateV2", "OK", times=0)
    for backend in made:
        with contextlib.suppress(BackendUnavailable):
            for box in await backend.list_boxes():
                await backend.destroy(box)
        await backend.close()


@pytest_asyncio.fixture(loop_scope="module")
async def backend(make: Make) -> ModalBackend:
    return await asyncio.to_thread(make)


async def test_without_a_token_the_probe_says_what_to_do(make: Make) -> None:
    backend = await asyncio.to_thread(make, token_secret="")
    found = await backend.probe()
    assert not found.available
    assert "MODAL_TOKEN_ID" in found.reason
    assert "MODAL_TOKEN_SECRET" in found.reason


async def test_a_token_that_is_refused_is_told_and_not_shown(make: Make) -> None:
    backend = await asyncio.to_thread(make, token_secret="as-canary-7f3a")
    found = await backend.probe()
    assert not found.available
    assert "does not accept the token" in found.reason
    assert (
        "canary" not in f"{found} {ModalConfig.model_validate({'token_secret': 'as-canary-7f3a'})}"
    )


async def test_a_server_that_is_not_there_is_told(spec: BoxSpec) -> None:
    options = ModalConfig.model_validate(
        {"token_id": "id", "token_secret": "secret", "server_url": "http://127.0.0.1:9"}
    )
    backend = ModalBackend(spec.owner, spec.workspace, b"", options, spec.workspace)
    found = await backend.probe()
    await backend.close()
    assert not found.available
    assert "http://127.0.0.1:9" in found.reason


@pytest.mark.parametrize("status", ["UNAVAILABLE", "INTERNAL"])
async def test_a_server_error_at_create_leaves_no_box(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec, status: str
) -> None:
    await cloud.fail("SandboxCreateV2", status)
    with pytest.raises(BackendUnavailable, match="does not serve: out of order"):
        await backend.create(spec)
    await cloud.fail("SandboxCreateV2", status, times=0)
    assert await backend.list_boxes() == []
    box = await backend.create(spec)
    assert await backend.list_boxes() == [box]


async def test_a_box_whose_making_was_never_answered_is_ended(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec, owner: str
) -> None:
    await cloud.fail("SandboxCreateV2", "UNAVAILABLE", after=True)
    with pytest.raises(BackendUnavailable):
        await backend.create(spec)
    assert (await cloud.ask())["made"] > 0
    assert owner not in str(await cloud.living())


async def test_a_lost_answer_makes_one_box(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec, owner: str
) -> None:
    await cloud.fail("SandboxCreateV2", "UNAVAILABLE", times=1, after=True)
    box = await backend.create(spec)
    assert await backend.list_boxes() == [box]
    assert str(await cloud.living()).count(owner) == 1


async def test_a_cancelled_create_leaves_no_box(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec, owner: str
) -> None:
    creating = asyncio.ensure_future(backend.create(spec))
    while owner not in str(await cloud.living()):
        pass
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert owner not in str(await cloud.living())


async def test_an_image_that_cannot_run_the_supervisor_is_told(
    make: Make, spec: BoxSpec, cloud: ModalService, owner: str
) -> None:
    backend = await asyncio.to_thread(make, supervisor=program("import sys; sys.exit('no room')"))
    with pytest.raises(BoxCreateFailed, match="no room"):
        await backend.create(spec)
    assert owner not in str(await cloud.living())


def program(text: str) -> bytes:
    """What is sent in place of the supervisor."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipapp:
        zipapp.writestr("__main__.py", text)
    return packed.getvalue()


async def test_of_a_copy_that_comes_to_nothing_it_is_told_how_it_ended(
    make: Make, spec: BoxSpec
) -> None:
    ends = program("import sys; sys.exit('no room to think')")
    backend = await asyncio.to_thread(make, supervisor=ends)
    with pytest.raises(BackendUnavailable, match="ended with status 1: no room to think"):
        await backend.workspace_store.copy(spec.workspace, spec.workspace / "copy", MIB)


async def test_a_sandbox_that_somebody_ended_is_lost_soon(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    async with open_console(backend, box) as console:
        recorder = await console.shell("sleep 600")
        started = time.monotonic()
        await cloud.ask(end=box.native_id)
        assert isinstance(await console.link.wait_ended(), LinkClosed)
        with pytest.raises(BoxLost):
            await backend.connect(box)
        assert time.monotonic() - started < 5
    assert isinstance(recorder.errors[0], LinkClosed)
    assert await backend.list_boxes() == []


async def test_a_sandbox_at_the_end_of_its_time_is_lost(make: Make, spec: BoxSpec) -> None:
    backend = await asyncio.to_thread(make, lifetime_s=3)
    box = await backend.create(spec)
    async with open_console(backend, box) as console, asyncio.timeout(10):
        assert isinstance(await console.link.wait_ended(), LinkClosed)
    with pytest.raises(BoxLost, match="status 124"):
        await backend.connect(box)


async def test_streams_that_break_lose_nothing(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec
) -> None:
    """First the connection to the worker breaks, which the SDK mends; then the bridge is killed."""
    box = await backend.create(spec)
    script = "i=0; while [ $i -lt 200000 ]; do echo $i; i=$((i+1)); done"
    async with open_console(backend, box) as console:
        first = await console.shell(script, exec_id="exc_count")
        await first.until(lambda r: r.received_bytes > 10_000)
        await cloud.ask(cut=True)
        await first.until(lambda r: r.received_bytes > 200_000)
        await cloud.ask(kill_commands=True)
        assert isinstance(await console.link.wait_ended(), LinkClosed)
    adopted: list[Recorder] = []

    def adopt(command: ExecHandle) -> Recorder:
        adopted.append(Recorder(command))
        return adopted[0]

    acked = {"exc_count": (len(first.received[1]), 0)}
    async with open_console(backend, box, adopt=adopt, acked=acked):
        await adopted[0].exit()
    whole = first.received[1] + adopted[0].received[1]
    assert whole.decode() == "".join(f"{n}\n" for n in range(200_000))


async def test_a_later_process_finds_the_box(make: Make, spec: BoxSpec) -> None:
    box = await (await asyncio.to_thread(make)).create(spec)
    later = await asyncio.to_thread(make)
    assert await later.list_boxes() == await later.list_boxes() == [box]


async def test_the_token_is_nowhere_in_the_box(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    async with open_console(backend, box) as console:
        script = "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; env"
        seen = await console.output(script)
        assert "--secret-sha256" in seen
        files = "grep -rlF -e {} /opt /tmp /workspace /etc 2>/dev/null || true"
        for hidden in cloud.token:
            assert hidden not in seen
            assert await console.output(files.format(hidden)) == ""
        assert "MODAL_" not in await console.output("env")
        assert await console.output("id -u; grep CapEff /proc/self/status | cut -f2") == (
            "1000\n0000000000000000"
        )


async def test_what_modal_is_asked_for(
    make: Make, cloud: ModalService, spec: BoxSpec, owner: str
) -> None:
    backend = await asyncio.to_thread(make, region="eu-west")
    limits = Limits(memory_bytes=300 * MIB, cpu_count=0.5, tmp_bytes=MIB)
    box = await backend.create(replace(spec, limits=limits))
    wanted = (await cloud.ask(look=box.native_id))["wanted"]
    assert wanted == {
        "network": "BLOCKED",
        "memory_mb": [256, 300],
        "milli_cpu": [125, 500],
        "timeout_secs": 24 * 3600,
        "idle_timeout_secs": 2400,
        "regions": ["eu-west"],
        "volumes": ["/workspace"],
        "secrets": 0,
    }
    assert (await cloud.living())[box.native_id] == {
        "hermes-owner": owner,
        "hermes-box": box.key,
        "hermes-pool": "test",
        "hermes-workspace": spec.workspace.name,
    }


async def test_a_second_box_sends_and_builds_nothing_again(
    backend: ModalBackend, cloud: ModalService, spec: BoxSpec
) -> None:
    await backend.create(spec)
    before = (await cloud.ask())["called"]
    await backend.create(replace(spec, box_key="another"))
    after = (await cloud.ask())["called"]
    for call in ("MountPutFile", "MountGetOrCreate", "ImageGetOrCreate", "AppGetOrCreate"):
        assert before.get(call) == after.get(call), call
    assert after["SandboxCreateV2"] == before["SandboxCreateV2"] + 1
