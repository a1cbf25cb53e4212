"""What the singularity backend promises beyond the seam: it outlives us, and says what it lacks."""

import asyncio
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from executor_service.backends.base import Capabilities, Enforcement
from executor_service.backends.process_boxes import ENVIRONMENT
from executor_service.backends.singularity.backend import Mount, SingularityBackend, check_isolation
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import SingularityConfig
from executor_service.errors import BackendUnavailable, BoxCreateFailed
from executor_service.records.sandboxes import Isolation
from executor_service.supervisor.processes import MARKER_VARIABLE
from tests import apptainer
from tests.contract.dying_executor import DyingExecutor
from tests.e2e.processes import check_nothing_left, end_users_of
from tests.support.boxes import Yard, new_spec, open_console, open_yard

pytestmark = pytest.mark.slow

OPTIONS = apptainer.options()
BACKEND = f"""
from functools import partial
from executor_service.backends.singularity.backend import SingularityBackend
from executor_service.config import SingularityConfig
options = SingularityConfig(image={OPTIONS.image!r}, program={OPTIONS.program!r})
Backend = partial(SingularityBackend, options=options)
"""


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard("singularity", tmp_path) as opened:
        yield opened


def run(*argv: str) -> str:
    """What the program that makes the boxes prints."""
    done = subprocess.run(
        [OPTIONS.program, *argv], check=True, capture_output=True, text=True, timeout=50
    )
    return done.stdout


async def test_capabilities(yard: Yard) -> None:
    found = yard.capabilities
    assert found.isolation is Isolation.NAMESPACE
    assert found.limits.tmp is Enforcement.ENFORCED
    assert found.limits.workspace is Enforcement.NONE
    assert "version" in found.reason


async def test_a_box_that_is_being_made_ends_with_its_executor(yard: Yard) -> None:
    """The executor dies at any moment; the next one knows of the box, or there is none."""
    zipapp = await asyncio.to_thread(build_zipapp)
    try:
        for moment_ms in range(0, 400, 50):
            folder = yard.folder / str(moment_ms)
            await asyncio.to_thread(folder.mkdir)
            dying = DyingExecutor(BACKEND, folder, "killed")
            await asyncio.to_thread(dying.run, last="Capabilities", after_s=moment_ms / 1000)
            successor = SingularityBackend("killed", folder / "backend", zipapp, OPTIONS)
            for box in await successor.list_boxes():
                await successor.destroy(box)
            assert await successor.list_boxes() == []
        await asyncio.to_thread(check_nothing_left, yard.folder)
    finally:
        await asyncio.to_thread(end_users_of, yard.folder)


async def test_a_machine_without_control_groups_says_what_it_cannot_hold(yard: Yard) -> None:
    hidden = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o ro none /sys/fs/cgroup; exec "$@"',
    )
    dying = DyingExecutor(BACKEND, yard.folder, yard.owner, through=(*hidden, "sh"))
    printed = await asyncio.to_thread(dying.run)
    for limit in ("memory", "cpu", "pids"):
        assert f"{limit}=<Enforcement.NONE" in printed
    assert "tmp=<Enforcement.ENFORCED" in printed
    assert "no control group limits memory, cpu, pids here" in printed


async def test_a_command_that_kills_everything_spares_the_box(yard: Yard) -> None:
    async with yard.box() as box, open_console(yard.backend, box) as console:
        await (await console.shell("kill -9 -1")).exit()
        assert await console.output("echo here") == "here"


async def test_the_environment_is_ours_alone(yard: Yard) -> None:
    """Apptainer would tell the box its own version, and where the image lies on the host."""
    async with yard.box() as box, open_console(yard.backend, box) as console:
        recorder = await console.start("/usr/bin/env")
        await recorder.exit()
        found = dict(line.split("=", 1) for line in recorder.stdout.splitlines())
    assert {name: found.get(name) for name in ENVIRONMENT} == ENVIRONMENT
    assert found.keys() - ENVIRONMENT.keys() == {MARKER_VARIABLE}


async def test_names_of_folders_are_taken_as_they_are(yard: Yard) -> None:
    workspace = yard.folder / 'a,b:c "d" =e'
    await asyncio.to_thread(workspace.mkdir)
    async with yard.box(workspace=workspace) as box, open_console(yard.backend, box) as console:
        await console.output("echo here > file")
    assert await asyncio.to_thread((workspace / "file").read_text) == "here\n"


def test_a_mount_is_one_line_of_csv() -> None:
    assert str(Mount(Path('/a,"b'), "/c")) == ('"type=bind","source=/a,""b","destination=/c","ro"')


def test_a_process_without_walls_is_no_box() -> None:
    with pytest.raises(BoxCreateFailed, match="system calls are not filtered"):
        check_isolation(os.getpid(), os.geteuid())


async def probe(folder: Path, options: SingularityConfig) -> Capabilities:
    zipapp = await asyncio.to_thread(build_zipapp)
    backend = SingularityBackend("me", folder / uuid.uuid4().hex, zipapp, options)
    found = await backend.probe()
    if not found.available:
        assert found.limits.memory is Enforcement.NONE
        with pytest.raises(BackendUnavailable):
            await backend.create(await asyncio.to_thread(new_spec, "me", folder))
    return found


async def test_what_is_missing_is_one_clear_line(yard: Yard) -> None:
    async def reason(**changes: str) -> str:
        found = await probe(yard.folder, OPTIONS.model_copy(update=changes))
        assert not found.available
        assert "\n" not in found.reason
        return found.reason

    assert "install Apptainer" in await reason(program="/no/such/program")
    assert "executor.singularity.image" in await reason(image="")
    assert "there is no /no/such.sif" in await reason(image="/no/such.sif")
    assert "whole path" in await reason(image="sandbox.sif")
    assert "cannot make a box here: it said nothing" in await reason(program="/bin/false")
    text = yard.folder / "text.sif"
    await asyncio.to_thread(text.write_text, "no image")
    assert "image format not recognized" in await reason(image=str(text))


# Enough of the image for a Python, without anything of Apptainer's own.
COPY = """
cd /mnt; mkdir -p usr/lib tmp run proc sys dev var/tmp opt workspace
cp -dR /usr/bin /usr/lib64 usr; cp -dR /usr/lib/python3* /usr/lib/*-linux-gnu* usr/lib
cp -dR /bin /lib /lib64 /etc .
"""


@pytest.fixture
def folder_image(yard: Yard) -> Iterator[Path]:
    """A folder with the image's root file system."""
    folder = yard.folder / "image"
    folder.mkdir()
    bind = ("--containall", "--no-privs", "--bind", f"{folder}:/mnt")
    run("exec", *bind, OPTIONS.image, "sh", "-ec", COPY)
    yield folder
    shutil.rmtree(folder)


async def test_an_image_may_be_a_folder_and_needs_python(yard: Yard, folder_image: Path) -> None:
    options = OPTIONS.model_copy(update={"image": str(folder_image)})
    assert (await probe(yard.folder, options)).available
    zipapp = await asyncio.to_thread(build_zipapp)
    backend = SingularityBackend("me", yard.folder / "other", zipapp, options)
    box = await backend.create(await asyncio.to_thread(yard.spec))
    async with open_console(backend, box) as console:
        recorder = await console.run("touch /usr/made; touch /tmp/made; ls /usr/made /tmp/made")
        assert recorder.stdout == "/tmp/made\n"
    await backend.destroy(box)
    assert not await asyncio.to_thread((folder_image / "usr" / "made").exists)
    await asyncio.to_thread((folder_image / "usr" / "bin" / "python3").unlink)
    found = await probe(yard.folder, options)
    assert not found.available
    assert "python3" in found.reason
