"""Commands of the documentation are run as they are printed, or the page says why they are not."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.backends import need_backend
from tests.e2e.deployment import one_process, running
from tests.e2e.home import HERMES, REPOSITORY, Home, Result
from tests.e2e.model import ModelProcess
from tests.support.markdown import Page, pages
from tests.support.printed import NOT_RUN, Line, printed
from tests.support.skills import document, put, put_skill

pytestmark = pytest.mark.timeout(600)

OFFLINE = {"certs", "config", "database", "home", "security", "tools"}
"""What is run in a home of its own, so that nobody else minds what it changes."""
ELSEWHERE = (
    r"export [A-Z_]+=.*",
    r"(DOCKER_HOST=\S+ )?make .*",
    r"(stack|docker compose) .*|alias stack=.*",
    r"sudo iptables .*",
    r"docker run --rea.*",
    r".*-m tests\.bench.*",
    r".*-m tests\.fakes\.model .*",
    r"hermes up.*",
    r"hermes serve .*",
    r"hermes demo.*",
    r"hermes setup.*",
    r"hermes chat( --(continue|resume) ?.*)?",
    r"hermes (login|logout) .*",
    r"hermes skills (install|search|remove) .*",
    r"hermes models --refresh",
    r"hermes memory undo .*",
    r"hermes curator (run|rollback).*",
    r"hermes approvals approve .*",
    r"hermes jobs (run|runs) morning.*",
    r"(.*\| )?hermes sandboxes (open|logs) .*",
    r"hermes pools .*--executor .*",
    r"hermes certs publish .*",
    r"hermes service .*",
    r"hermes acp --setup .*",
    r"hermes (batch (run|show|resume)|trajectories convert|hooks test|mcp test) .*",
    r"hermes memory setup.*",
    r"hermes completion .*",
    r"(tar|pg_dump|pg_restore|mkdir) .*",
)
"""Patterns of commands that want what is not here, such as a terminal, an hour or a second machine.

Other tests run them."""
CONFIG: Mapping[str, Any] = {
    "models": {"scripted": {"price": {"input": 0.0, "output": 0.0}}},
    "executor": {"templates": {"gvisor": {}}},
}
SESSION, BOX, WORKSPACE = "20261121_101500_a1b2c3", "sbx_06h00k5s", "wsp_06h00k5s"
JOB = "job_06h00k5sv3a2ovn28hk0a80nvk"
FILES = {
    "commands.txt": "ls\n",
    "commands.jsonl": '{"id": "1", "text": "ls"}\n',
    "notes.txt": "Buy milk.\n",
    "check-disk.sh": "df -h /\n",
    "backup/hermes/SOUL.md": "You are kind.\n",
    "backup/hermes/cron/jobs.json": '{"jobs": []}\n',
}
"""What people have where they type the commands."""


def elsewhere(line: Line) -> list[str]:
    """The patterns of commands that other tests run, as far as they fit."""
    return [each for each in ELSEWHERE if re.fullmatch(each, line.plain)]


def run_by_nobody(documents: Sequence[Page]) -> list[str]:
    """Neither here, where each `hermes` is run, nor elsewhere."""
    lines = [line for line in printed(documents) if not elsewhere(line)]
    return [f"{line.page}: {line.text}" for line in lines if "hermes " not in f"{line.plain} "]


def test_every_command_is_run_or_said_not_to_be() -> None:
    assert run_by_nobody(pages()) == []
    new = "```sh\nbrew coffee\n```\n"
    assert run_by_nobody([Page(REPOSITORY / "NEW.md", new)]) == ["NEW.md: brew coffee"]
    assert run_by_nobody([Page(REPOSITORY / "NEW.md", f"<!-- {NOT_RUN}no beans -->\n{new}")]) == []


def test_no_pattern_is_left_over() -> None:
    used = {each for line in printed(pages()) for each in elsewhere(line)}
    assert set(ELSEWHERE) - used == set()


@dataclass(frozen=True, slots=True)
class Person:
    """Who types what is printed: beside a running Hermes, or in a home where none runs."""

    beside: Home
    alone: Home
    folder: Path
    """Has one for each page."""

    def types(self, line: Line) -> Result:
        """What comes of a command."""
        words = shlex.split(line.plain)
        home = self.alone if words[1] in OFFLINE else self.beside
        place = self.folder / line.page
        if not place.exists():
            self._furnish(place)
        if words[0] == "hermes" and not set(words) & {"<", ">", "|"}:
            argv = [word.replace("~", str(self.folder / line.page)) for word in words[1:]]
            return home.run(*argv, cwd=place)
        environ = home.environ
        path = f"{HERMES.parent}:{environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line.text],
            cwd=place,
            env={**environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def _furnish(self, place: Path) -> None:
        place.mkdir(parents=True)
        for name, text in FILES.items():
            put(place, name, text)
        git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.org")
        for argv in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "-m", "begin")):
            subprocess.run([*git, *argv], cwd=place, check=True)
        if place.name == "scaling.md":  # which begins where others have ended
            self.alone.run("certs", "init", "--folder", "certs", cwd=place)


@pytest.fixture(scope="module")
def person(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person with a session, and the skill and the profiles that pages tell of."""
    backend = need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("documented")
    alone = Home.make(folder / "alone", EDITOR="true")
    for profile in ("ann", "work"):
        put(alone.path, f"profiles/{profile}/config.yaml", "{}\n")
    config = {**CONFIG, "terminal": {"backend": backend}}
    with running(one_process(folder / "up", model.url, config)) as started:
        put_skill(started.client.path / "skills", "arxiv", document("arxiv"))
        put(started.client.path / "skills", "arxiv/references/api.md", "GET /query\n")
        yield Person(started.client, alone, folder / "pages")


def named(person: Person, text: str) -> str:
    """A command with the ids of what is there in place of those that are printed."""
    if SESSION in text or "holiday plans" in text:
        session = person.beside.ask("who are you")["session_id"]
        person.beside.run("sessions", "rename", session, "holiday plans")
        text = text.replace(SESSION, session).replace("--through 8", "--through 1")
    if BOX in text or WORKSPACE in text:
        person.beside.ask("who are you")
        box = person.beside.run("sandboxes", "list", "--json").json[-1]["sandbox_id"]
        workspace = person.beside.run("workspaces", "list", "--json").json[-1]["workspace_id"]
        if "delete" in text:
            person.beside.run("sandboxes", "kill", box, "--yes")
        text = text.replace(BOX, box).replace(WORKSPACE, workspace)
    if JOB in text:
        made = person.beside.run("jobs", "add", "every 2h", "look", "--json").json
        text = text.replace(JOB, made["job_id"])
    return text


@pytest.mark.slow
def test_hermes_does_what_is_printed(person: Person, tmp_path: Path) -> None:
    lines = {  # each once, but for certificates, which are made for somebody
        line.text if " certs " not in line.text else f"{line.page}: {line.text}": line
        for line in reversed(printed(pages()))
        if not elsewhere(line)
    }
    assert len(lines) > 90
    failed = dict[str, str]()
    for line in reversed(lines.values()):
        text = named(person, line.text).replace("/tmp/ann", str(tmp_path / "ann"))
        done = person.types(Line(line.page, text))
        if done.status:
            failed[f"{line.page}: {text}"] = done.err or done.out
    assert not failed, "\n".join(f"{line}: {why}" for line, why in failed.items())
