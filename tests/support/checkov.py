"""What checkov finds in recipes and manifests, and which of it need not be mended."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.requirements import require

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_CHECKOV = _CACHE / "hermes-tests" / "checkov" / "bin" / "checkov"

Exceptions = Sequence[tuple[str, str, str]]
"""Which check need not hold, for what (a pattern of file/resource), and why."""


def checked(folder: Path, framework: str) -> dict[str, Any]:
    """The report on a folder."""
    require("checkov", _CHECKOV.exists(), "tests/helm/make-checkov installs it")
    command = [_CHECKOV, "-d", folder, "--framework", framework, "--skip-download"]
    command += ["--compact", "--quiet", "--output", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(ran.stdout)
    assert report["summary"]["parsing_errors"] == 0, ran.stderr
    return report


def check_failures(report: dict[str, Any], exceptions: Exceptions) -> None:
    """Each failure is an exception, and each exception a failure."""
    failed = {
        (each["check_id"], f"{Path(each['file_path']).stem}/{each['resource']}", each["check_name"])
        for each in report["results"]["failed_checks"]
    }
    unjustified = {each for each in failed if not _matching(each, exceptions)}
    assert not unjustified
    used = {exception for each in failed for exception in _matching(each, exceptions)}
    assert used == set(exceptions), "some are not needed any more"


def _matching(failed: tuple[str, str, str], exceptions: Exceptions) -> Exceptions:
    check, what, _ = failed
    return [one for one in exceptions if one[0] == check and re.fullmatch(one[1], what)]
