"""Homes on disk, and the `hermes` command run in them as a person or a script runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace
from ruamel.yaml import YAML

from tests.support.forked_popen import ForkedPopen, hermes

HERMES = Path(sys.executable).with_name("hermes")
REPOSITORY = Path(__file__).parents[2]

COMMAND_TIMEOUT_S = 45.0
PASSED_ON = ("DOCKER_HOST", "PYTHONPATH")
INTRODUCTIONS = ("hermes: model  ", "hermes: sandbox  ")


class Result(Struct, frozen=True):
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What standard output says as one JSON document."""
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def complaints(self) -> list[str]:
        """The lines on standard error, but for those that say what is used."""
        return [line for line in self.err.splitlines() if not line.startswith(INTRODUCTIONS)]


class Home(Struct, frozen=True):
    """A home and the environment of those who use it."""

    path: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: Sequence[str] = ()
    """What `hermes` is run through."""
    forks: bool = True
    """Whether it has been imported when it starts, as far as it is run through nothing; else it
    starts as a user's does, and its environment is its own from its first moment.
    """

    @staticmethod
    def make(folder: Path, config: Mapping[str, Any] | None = None, **variables: str) -> "Home":
        """A home in a new folder `home`, with a config.yaml where there is a config."""
        home = Home(folder / "home", variables)
        home.path.mkdir(parents=True)
        if config is not None:
            home.configure(config)
        return home

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write the whole config.yaml."""
        with (self.path / "config.yaml").open("w", encoding="utf-8") as stream:
            cast("Any", YAML()).dump(config, stream)

    def set(self, **variables: str) -> "Home":
        """The same home with further variables in the environment."""
        return replace(self, variables={**self.variables, **variables})

    @property
    def environ(self) -> dict[str, str]:
        """An environment with nothing of the machine's own settings but the engine's address."""
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path.parent),
            "HERMES_HOME": str(self.path),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HERMES_SKILLS_BUNDLED": "false",
            **passed_on,
            **self.variables,
        }

    def spawn(
        self, *argv: str | Path, in_terminal: bool = False, **options: Any
    ) -> "subprocess.Popen[str]":
        """Start `hermes` with these arguments, by default with pipes and no standard input.

        In a terminal, which then is its standard input, it leads a session.
        """
        chosen: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.environ,
            "cwd": self.path.parent,
            "text": True,
            **options,
        }
        if self.forks and not self.prefix:
            return ForkedPopen(hermes(argv), start_new_session=in_terminal, **chosen)
        session = ("setsid", "--ctty") if in_terminal else ()
        return subprocess.Popen([*session, *self.prefix, HERMES, *argv], **chosen)

    def run(
        self,
        *argv: str | Path,
        text: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        cwd: Path | None = None,
    ) -> Result:
        """Run `hermes` to its end; `text` is piped in."""
        stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
        with self.spawn(*argv, stdin=stdin, cwd=cwd or self.path.parent) as process:
            try:
                out, err = process.communicate(text, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                shown = " ".join(map(str, argv))
                raise AssertionError(f"hermes {shown} did not end\n{out}\n{err}") from None
        return Result(process.returncode, out, err)

    def ask(self, question: str, *options: str, timeout_s: float = COMMAND_TIMEOUT_S) -> Any:
        """Ask once with --json; the parsed answer of a command that must succeed."""
        result = self.run("chat", "-q", question, "--json", *options, timeout_s=timeout_s)
        assert result.status == 0, (result.err, self.logs()[-4000:])
        assert result.err == ""
        return result.json

    def logs(self) -> str:
        """What the home's log files say."""
        files = sorted((self.path / "logs").glob("*.log*"))
        return "".join(file.read_text(encoding="utf-8") for file in files)


def check_complaint(result: Result, *parts: str, lines: int = 1) -> None:
    """The command failed with so many lines on standard error, which say all of the parts."""
    assert result.status not in (0, None), result
    assert "Traceback" not in result.out + result.err
    assert len(result.complaints) == lines, result.err
    assert result.complaints[0].startswith("hermes: "), result.err
    for part in parts:
        assert part in result.err
