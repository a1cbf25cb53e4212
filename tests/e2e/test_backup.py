"""A backup made and restored with the commands that docs/operators/deployment.md prints."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import one_process, running
from tests.e2e.home import REPOSITORY, Home
from tests.e2e.model import ModelProcess
from tests.support.markdown import page
from tests.support.postgres import PostgresServer, require_postgres


def type_printed(command: str, folder: Path, home: Path, environ: Mapping[str, str]) -> None:
    """Run the block of the page that has a command, for a home that is elsewhere."""
    blocks = page(REPOSITORY / "docs/operators/deployment.md").blocks("sh")
    (text,) = (block.text for block in blocks if command in block.text)
    typed = text.replace("~/.hermes", str(home))
    subprocess.run(["bash", "-euc", typed], cwd=folder, env=environ, check=True)


def state_of(home: Home) -> dict[str, str]:
    """What a person would miss."""
    sessions = home.run("sessions", "search", "who", "--json")
    jobs, memory = home.run("jobs", "list", "--json"), home.run("memory", "show", "--json")
    return {"sessions": sessions.out, "jobs": jobs.out, "memory": memory.out}


def backed_up(
    model: ModelProcess, folder: Path, old: Mapping[str, str], new: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Make something, keep it as the page says, and look for it in a new home."""
    config = sandboxed(need_backend("bubblewrap", folder / "probe"))
    first = one_process(folder / "first", model.url, config, **old)
    with running(first):
        first.client.ask("who are you")
        first.client.run("jobs", "add", "every monday 8am", "water the plants")
        kept = state_of(first.client)
    assert "who are you" in kept["sessions"]
    assert "water the plants" in kept["jobs"]
    environ = first.client.environ
    if old:
        environ = {**environ, "PATH": f"{require_postgres()}:{environ['PATH']}"}
        type_printed("pg_dump", folder, first.client.path, environ)
    type_printed("tar --create", folder, first.client.path, environ)

    second = Home(folder / "second" / "home", first.client.variables).set(**new)
    second.path.parent.mkdir()
    type_printed("tar --extract", folder, second.path, environ)
    if new:
        type_printed("pg_restore", folder, second.path, {**environ, **new})
    again = one_process(folder / "third", model.url, config, **new)
    again.servers["up"].home = second
    with running(again):
        return kept, state_of(second)


def test_a_home_with_sqlite(model: ModelProcess, tmp_path: Path) -> None:
    kept, restored = backed_up(model, tmp_path, {}, {})
    assert restored == kept


def test_a_home_with_postgresql(
    model: ModelProcess, tmp_path: Path, postgres: PostgresServer
) -> None:
    with postgres.database() as one, postgres.database() as other:
        old, new = {"HERMES_DATABASE_URL": one}, {"HERMES_DATABASE_URL": other}
        kept, restored = backed_up(model, tmp_path, old, new)
    assert restored == kept
