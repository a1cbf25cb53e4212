"""The wheel holds all of the product, data files included, and its generated code works from it."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.wheel import ROOT, build_wheel

PACKAGES = ("services", "agent_service", "executor_service", "gateway_service", "scheduler_service")
GENERATED = "protos/gen/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_nothing_is_left_behind(wheel: Path) -> None:
    command = ["git", "ls-files", "-z", *PACKAGES, GENERATED]
    tracked = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    present = [name for name in tracked.rstrip("\0").split("\0") if (ROOT / name).is_file()]
    assert len(present) > 50
    with ZipFile(wheel) as archive:
        missing = {name.removeprefix(GENERATED) for name in present} - set(archive.namelist())
    assert not missing


def test_it_has_the_command_and_the_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        info = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
        assert b"hermes = services.cli.main:main" in archive.read(info["entry_points.txt"])
        assert b"MIT License" in archive.read(info["LICENSE"])


def test_the_generated_code_is_imported_from_it(wheel: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import hermes.agent.v1.turn_pb2_grpc as turn, google.rpc.status_pb2 as status\n"
        "print(turn.__file__, status.__file__)"
    )
    run = [sys.executable, "-I", "-c", program, str(wheel)]
    output = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    turn, status = output.split()
    assert turn.startswith(str(wheel))
    assert "site-packages" in status
