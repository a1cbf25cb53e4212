"""`hermes database upgrade`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_service.storage import migrations as of_the_agent
from scheduler_service.storage import migrations as of_the_scheduler
from services.cli.admin.database import SCHEMAS


def upgrade(home: Path, *arguments: str, url: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"HERMES_HOME": str(home), "PATH": "/usr/bin:/bin"}
    if url:
        (home / "url").write_text(url)
        environ["HERMES_DATABASE_URL_FILE"] = str(home / "url")
    command = [Path(sys.executable).with_name("hermes"), "database", "upgrade", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.timeout(120)
def test_tables_are_made_once_and_then_left_alone(tmp_path: Path, empty_postgres_url: str) -> None:
    first = upgrade(tmp_path, "--json", url=empty_postgres_url)
    assert first.returncode == 0, first.stderr
    made = {each["service"]: each for each in json.loads(first.stdout)}
    assert set(made) == set(SCHEMAS)
    assert made["agent"] == {"service": "agent", "before": None, "after": of_the_agent.HEAD}
    second = upgrade(tmp_path, "scheduler", url=empty_postgres_url)
    assert second.returncode == 0, second.stderr
    assert (
        second.stdout
        == f"the tables of the scheduler have version {of_the_scheduler.HEAD} (unchanged)\n"
    )


def test_what_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    refused = upgrade(tmp_path, "agent", url="postgresql://hermes:secret@127.0.0.1:1/hermes")
    assert refused.returncode == 1
    assert refused.stderr.startswith("hermes: ")
    assert "secret" not in refused.stderr
    assert upgrade(tmp_path, "nobody").returncode == 2
