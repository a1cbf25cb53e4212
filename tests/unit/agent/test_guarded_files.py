"""Keys and the agent's own home on a machine: what searches, messages and notes show of them."""

import asyncio
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_service.records.events import Decision
from agent_service.records.messages import KnownChat, Message, Target
from agent_service.records.requests import TurnRequest
from agent_service.records.sandbox import (
    Command,
    CommandStatus,
    Exit,
    ExitReason,
    FileStat,
    OnOutput,
    PathRefused,
    SandboxInfo,
    Stream,
)
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.paths import HOME, own_places, read_family
from agent_service.security.threats import ThreatScanner
from agent_service.tools.base import Caller, RetryWithHint, Tool, ToolContext, ToolFailed
from agent_service.tools.builtin import ApprovalPolicy, builtin_tools
from agent_service.tools.context_files import NAMES, ContextFiles
from agent_service.tools.guards.approval import DecisionRequired
from agent_service.tools.guards.commands import CommandPolicy
from agent_service.turns.answer_files import AnswerFiles, Workplace
from tests.support.reach import out_of_reach
from tests.unit.agent.test_judged import Records, State
from tests.unit.agent.test_toolbox import turn

CHAT = {"platform": "telegram", "chat_id": "42"}
KEY = ".ssh/id_rsa"


class Disk:
    """The files of this machine, with relative paths below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def stat(self, path: str) -> FileStat | None:
        whole = self._root / path
        try:
            fact = await asyncio.to_thread(os.lstat, whole)
        except OSError:
            return None
        if not stat.S_ISLNK(fact.st_mode):
            return FileStat(path, "file", 0, 0)
        return FileStat(path, "symlink", 0, 0, await asyncio.to_thread(os.readlink, whole))

    async def read(self, path: str, max_bytes: int) -> bytes:
        assert max_bytes
        try:
            return await asyncio.to_thread((self._root / path).read_bytes)
        except OSError as error:
            raise PathRefused(str(error)) from error


class Bash:
    """Runs commands on this machine, with the programs of a folder `bin` where there is one."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def run(self, command: Command, on_output: OnOutput) -> CommandStatus:
        programs = self._home / "bin"
        is_there = await asyncio.to_thread(programs.exists)
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            *command.argv[1:],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": str(programs) if is_there else "/usr/bin:/bin"},
        )
        said, _ = await process.communicate()
        on_output(Stream.STDOUT, said)
        ended = Exit(ExitReason.EXITED, process.returncode, 0, 0, len(said), 0)
        return CommandStatus(command.key, 0, ended)


class Chats:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def has(self, key: str, profile: str) -> bool:
        return False

    async def chats(self, profile: str) -> Sequence[KnownChat]:
        raise AssertionError("nobody asks for chats")

    async def resolve(self, message: Message) -> Sequence[str]:
        raise AssertionError("a file of an answer has a chat")

    async def send(self, message: Message) -> Sequence[str]:
        self.sent.append(message)
        return ()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with keys, notes and an agent's home of another name."""
    texts = {KEY: "otter key", "notes/a.txt": "otter\nswims", "agent/config.yaml": "otter: 1"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "agent")
    return tmp_path


@pytest.fixture(params=["with ripgrep", "without ripgrep"])
def searched(request: pytest.FixtureRequest, home: Path) -> Path:
    """The home, with ripgrep on its machine and without."""
    if request.param == "without ripgrep":
        (home / "bin").mkdir()
        for name in ("grep", "find", "sed", "sort", "tr"):
            (home / "bin" / name).symlink_to(_program(name))
    return home


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None
    return found


def tool_of(name: str, home: Path, chats: Chats, *, asks: bool) -> Tool[Any]:
    asking = ApprovalPolicy(CommandPolicy(asks=asks, own=own_places(home / "linked")))
    reach = replace(out_of_reach(), messenger=chats)
    (found,) = [each.tool for each in builtin_tools(reach, asking=asking) if each.tool.name == name]
    return found


async def call(
    home: Path,
    name: str,
    *,
    backend: str = "local",
    asks: bool = True,
    decided: tuple[Decision, str] | None = None,
    chats: Chats | None = None,
    **arguments: Any,
) -> str:
    """What a call says; "asked" with the subject where a person has to decide."""

    async def sandbox() -> SandboxInfo:
        return SandboxInfo(backend)

    commands, files = Bash(home), Disk(home)
    context: Any = ToolContext(
        key="trn_1:2",
        commands=commands,  # pyright: ignore[reportArgumentType] - what is run is all that is used
        files=files,  # pyright: ignore[reportArgumentType] - what is read is all that is used
        state=State(),
        decision=None if decided is None else decided[0],
        decided_on="" if decided is None else decided[1],
        progress=print,
        records=Records(),
        sandbox=sandbox,
        caller=Caller(origin=CHAT),
    )
    tool = tool_of(name, home, chats or Chats(), asks=asks)
    try:
        return (await tool.run(tool.arguments(**arguments), context)).text
    except DecisionRequired as asked:
        return f"asked {asked.binding} {asked.subject}"


SEARCHES: list[dict[str, Any]] = [
    {},
    {"context": 1},
    {"output_mode": "count"},
    {"output_mode": "files_only"},
    {"target": "files", "pattern": "*"},
]


@pytest.mark.parametrize("more", SEARCHES)
@pytest.mark.parametrize("folder", ["", "/link", "/"])
async def test_a_search_leaves_out_what_a_person_has_to_allow(
    searched: Path, more: dict[str, Any], folder: str
) -> None:
    asked: dict[str, Any] = {"pattern": "otter", **more}
    said = await call(searched, "search_files", path=f"{searched}{folder}", **asked)
    assert "notes/a.txt" in said
    assert "which need a person's approval" in said
    assert not any(each in said for each in ("\0", KEY, "otter key", "config.yaml", "otter: 1"))


@pytest.mark.parametrize(("backend", "asks"), [("docker", True), ("local", False)])
async def test_a_search_shows_all_where_nothing_is_asked(
    home: Path, backend: str, asks: bool
) -> None:
    asked: dict[str, Any] = {"pattern": "*", "target": "files", "path": f"{home}"}
    assert KEY in await call(home, "search_files", backend=backend, asks=asks, **asked)


async def test_a_search_of_what_was_allowed_shows_it(home: Path) -> None:
    asked: dict[str, Any] = {"pattern": "otter", "path": f"{home}/.ssh"}
    said = await call(home, "search_files", **asked)
    assert said.startswith("asked ")
    decided = (Decision.ONCE, said.split()[1])
    assert "otter key" in await call(home, "search_files", decided=decided, **asked)


@pytest.mark.parametrize("path", [KEY, f"link/{KEY}", "agent/config.yaml"])
async def test_a_file_that_a_person_has_to_allow_is_sent_once_they_have(
    home: Path, path: str
) -> None:
    chats = Chats()
    message: dict[str, Any] = {"action": "send", "message": f"MEDIA:{home}/{path}"}
    said = await call(home, "send_message", chats=chats, **message)
    assert said.startswith("asked ")
    assert "keys and passwords" in said or "agent's own home" in said
    assert not chats.sent
    decided = (Decision.ONCE, said.split()[1])
    await call(home, "send_message", chats=chats, decided=decided, **message)
    assert len(chats.sent) == 1


@pytest.mark.parametrize(
    ("path", "backend", "asks", "sent"),
    [
        (KEY, "local", True, False),
        (f"link/{KEY}", "ssh", True, False),
        (KEY, "docker", True, True),
        (KEY, "local", False, True),
        ("notes/a.txt", "local", True, True),
    ],
)
async def test_an_answer_sends_no_file_that_a_person_has_to_allow(
    home: Path, path: str, backend: str, asks: bool, sent: bool
) -> None:
    async def place() -> SandboxInfo:
        return SandboxInfo(backend)

    chats, disk = Chats(), Disk(home)
    unused: Any = None
    work = Workplace(disk, place, unused, unused)  # pyright: ignore[reportArgumentType] - it is only read
    answers = AnswerFiles(chats, lambda _: work, CommandPolicy(asks=asks), unused)
    live = turn()
    live.request = TurnRequest("", "", "", "", CHAT, "")
    assert Target.of_origin(live.origin) is not None
    said = await answers.send(live, f"MEDIA:{home}/{path}")
    assert bool(chats.sent) is sent
    assert ("a person has to allow this" in said) is not sent


@pytest.mark.parametrize(
    ("target", "shown"), [(KEY, False), ("agent/config.yaml", False), ("notes/a.txt", True)]
)
def test_notes_that_are_a_link_to_keys_say_nothing(home: Path, target: str, shown: bool) -> None:
    folder = home / "project"
    folder.mkdir()
    (folder / "AGENTS.md").symlink_to(home / target)
    notes = ContextFiles(ThreatScanner(), 1_000, own_places(home / "linked"))
    disk: Any = Disk(home)
    said = asyncio.run(notes.first(disk, str(folder), NAMES))
    assert ("otter" in said.text) is shown


@pytest.mark.parametrize(
    "path",
    [
        *("/home/me/.SSH/ID_RSA", "/home/me/.Aws/Credentials", "/HOME/ME/.HERMES/config.yaml"),
        *("/proc/1/task/1/environ", "/proc/self/task/7/mem", "/proc/thread-self/environ"),
        *(
            "/proc/self/root/etc/shadow",
            "/proc/1/task/2/root/etc/shadow",
            "/home/me/.\u017fsh/id_rsa",
        ),
    ],
)
def test_a_path_is_known_in_other_spellings(path: str) -> None:
    assert read_family(path)


@pytest.mark.parametrize("path", ["/proc/1/status", "/home/me/ssh/id", "/proc/self/root/a.txt"])
def test_a_path_that_only_resembles_one_is_not(path: str) -> None:
    assert not read_family(path)


def test_the_agents_home_is_known_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own = own_places(tmp_path / "agent")
    assert set(own) >= {f"{tmp_path}/agent", f"{HOME}/agent"}
    classifier = CommandClassifier(own)
    for command in (
        f"cat {tmp_path}/agent/config.yaml",
        "cat ~/agent/config.yaml",
        "cd ~/agent && ls",
        "sort < ~/agent/state/agent.db",
        f"python3 -c \"open('{tmp_path}/agent/config.yaml').read()\"",
        "echo x > ~/AGENT/config.yaml",
    ):
        assert "own-config" in classifier.classify(command).families, command
    for command in ("cat ~/agents/a", "cat ~/agent/workspaces/x/a", "echo ~/agent"):
        assert not classifier.classify(command).families, command


async def test_the_agents_home_of_another_name_asks(home: Path) -> None:
    written: dict[str, Any] = {"content": "x"}
    for tool, more in (("read_file", {}), ("write_file", written)):
        said = await call(home, tool, path=f"{home}/agent/config.yaml", **more)
        assert "agent's own home" in said


async def test_where_a_search_leads_out_of_the_workspace_nothing_is_searched(home: Path) -> None:
    with pytest.raises((RetryWithHint, ToolFailed)):
        await call(home, "search_files", pattern="otter", path="../x")
