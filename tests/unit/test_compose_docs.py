"""Each call of `docker compose` in the documentation is one that Compose takes as it is printed."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.markdown import ROOT, Page, page, pages
from tests.requirements import require

OPTIONS = ("--env-file", "--file", "--profile")
"""Of Compose itself; each has a value."""
OURS = "docker/compose.yaml"
SETTINGS = {
    "HERMES_COMPOSE": "/srv/compose",
    "HERMES_ENGINE_SOCKET": "/run/user/1000/docker.sock",
    "HERMES_EXECUTOR_HOME": "/srv/executor",
    "HERMES_EXECUTOR_USER": "1000:1000",
    **{f"HERMES_{name}_HASH": "0" for name in ("AGENT", "EXECUTOR", "GATEWAY", "SCHEDULER")},
}


def calls(document: Page) -> Iterator[tuple[list[str], list[str]]]:
    """What each call with our file has before its command, and from there on."""
    aliases = dict[str, list[str]]()
    for block in document.blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["alias"]:
                name, _, stands_for = words[1].partition("=")
                aliases[name] = shlex.split(stands_for)
                continue
            words = aliases.get(words[0], words[:1]) + words[1:] if words else []
            if words[:2] != ["docker", "compose"] or not any(OURS in word for word in words):
                continue
            rest = iter(words[2:])
            given = list[str]()
            for word in rest:
                if word not in OPTIONS:
                    yield given, [word, *rest]
                    break
                given += [word, next(rest)]
            else:
                pytest.fail(f"{document.name}: `{line}` has an option that this test does not know")


def services_named(command: list[str]) -> list[str]:
    """The services that a command is about."""
    name, *rest = command
    words = [
        word
        for before, word in zip([name, *rest], rest, strict=False)
        if not word.startswith("-") and before != "--tail"
    ]
    return words[:1] if name in ("exec", "run") else words


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home for which the stack was prepared, with the files that a page says to make."""
    made = tmp_path_factory.mktemp("home")
    (made / ".hermes" / "compose").mkdir(parents=True)
    settings = "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
    (made / ".hermes/compose/settings").write_text(settings)
    (alerts,) = (
        block.text
        for block in page(ROOT / "docs/compose.md").blocks("yaml")
        if "alertmanager.yml" in block.text
    )
    (made / ".hermes/alerts.yaml").write_text(alerts)
    return made


def has_compose() -> bool:
    """Whether the program and its plug-in are there; no engine is needed."""
    program = shutil.which("docker")
    return program is not None and not subprocess.call(
        [program, "compose", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def refusal(home: Path, given: list[str], command: list[str]) -> str:
    """What Compose has against a call, of which it only reads the files; empty if nothing."""
    argv = ["docker", "compose", *(word.replace("~", str(home)) for word in given)]
    done = subprocess.run(
        [*argv, "--profile", "*", "config", "--services"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("HERMES_")},
    )
    if done.returncode:
        return done.stderr
    unknown = set(services_named(command)) - set(done.stdout.split())
    return f"there is no service {unknown}" if unknown else ""


@pytest.mark.slow
def test_compose_takes_each_call_of_the_documentation(home: Path) -> None:
    require("images", has_compose(), "docker/get-plugins")
    found = [(each.name, *call) for each in pages() for call in calls(each)]
    assert {"docs/compose.md", "docs/runbooks/HermesServiceDown.md"} <= {name for name, *_ in found}
    refused = dict[tuple[str, ...], str]()
    for name, given, command in found:
        if said := refusal(home, given, command):
            refused[name, *given, *command] = said
    assert refused == {}
