"""What file tools touch unasked: all in a sandbox, on a machine what no family is about."""

import posixpath
from typing import Any

import pytest
from msgspec.structs import replace

from agent_service.records.events import Decision
from agent_service.records.sandbox import FileStat, SandboxInfo
from agent_service.tools.base import RetryWithHint, Tool, ToolContext, ToolFailed
from agent_service.tools.builtin import ApprovalPolicy, builtin_tools
from agent_service.tools.guards.approval import DecisionRequired
from agent_service.tools.guards.commands import DISPOSABLE, CommandPolicy
from tests.support.reach import out_of_reach
from tests.unit.agent.test_judged import Records, State

MACHINES = ("local", "ssh")
HOOK = "*** Begin Patch\n*** Add File: .git/hooks/pre-push\n+id\n*** End Patch"
MOVED = "*** Begin Patch\n*** Update File: a\n*** Move to: /etc/cron.d/x\n*** End Patch"


class Machine:
    """The files of a machine, by where they really are."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}

    async def stat(self, path: str) -> FileStat | None:
        if path in self.links:
            return FileStat(path, "symlink", 0, 0, self.links[path])
        return FileStat(path, "file", 0, 0) if path in self.files else None

    async def read(self, path: str, max_bytes: int) -> bytes:
        assert max_bytes
        return self.files[posixpath.join("/workspace", path)]

    async def write(self, path: str, data: bytes) -> None:
        self.files[posixpath.join("/workspace", path)] = data


@pytest.fixture
def machine() -> Machine:
    """A machine with nothing on it."""
    return Machine()


def tool_of(name: str, *, asks: bool = True) -> Tool[Any]:
    asking = ApprovalPolicy(CommandPolicy(asks=asks))
    (found,) = [
        each.tool for each in builtin_tools(out_of_reach(), asking=asking) if each.tool.name == name
    ]
    return found


async def call(
    machine: Machine,
    name: str,
    *,
    backend: str = "local",
    asks: bool = True,
    decided: tuple[Decision, str] | None = None,
    granted: str = "",
    **arguments: str,
) -> str:
    """What a call says; "asked" with the subject where a person has to decide."""

    async def sandbox() -> SandboxInfo:
        return SandboxInfo(backend)

    unused: Any = None
    context = ToolContext(
        key="trn_1:2",
        commands=unused,
        files=unused,
        state=State(),
        decision=None,
        progress=print,
        records=Records({granted}),
        sandbox=sandbox,
    )
    context = replace(context, files=machine)
    if decided is not None:
        context = replace(context, decision=decided[0], decided_on=decided[1])
    tool = tool_of(name, asks=asks)
    try:
        return (await tool.run(tool.arguments(**arguments), context)).text
    except DecisionRequired as asked:
        return f"asked {asked.binding} {asked.subject}"


@pytest.mark.parametrize("backend", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "about"),
    [
        (
            "write_file",
            {"path": "/home/me/.bashrc"},
            "changes what a shell or a login runs when it starts",
        ),
        ("write_file", {"path": ".zshrc"}, "changes what a shell or a login runs when it starts"),
        ("write_file", {"path": "/home/me/.ssh/authorized_keys"}, "run later"),
        ("write_file", {"path": "/home/me/.ssh/id_ed25519"}, "keys and passwords"),
        ("write_file", {"path": "/var/spool/cron/crontabs/me"}, "run later"),
        ("write_file", {"path": "/home/me/.config/systemd/user/x.service"}, "run later"),
        ("write_file", {"path": "/etc/systemd/system/x.service"}, "run later"),
        ("write_file", {"path": "/home/me/.hermes/config.yaml"}, "agent's own home"),
        ("write_file", {"path": "repo/.git/hooks/pre-commit"}, "run later"),
        ("write_file", {"path": "/etc/hosts"}, "the system's configuration"),
        ("write_file", {"path": "/tmp/../home/me/.profile"}, "a shell or a login"),
        ("patch", {"mode": "patch", "patch": HOOK}, "run later"),
        ("patch", {"mode": "patch", "patch": MOVED}, "run later"),
        (
            "patch",
            {"mode": "replace", "path": "/root/.bashrc", "old_string": "a", "new_string": "b"},
            "a shell or a login",
        ),
        ("read_file", {"path": "/home/me/.ssh/id_rsa"}, "keys and passwords"),
        ("read_file", {"path": "/home/me/.aws/credentials"}, "keys and passwords"),
        ("read_file", {"path": ".env"}, "keys and passwords"),
        ("read_file", {"path": "/home/me/.hermes/auth.json"}, "keys and passwords"),
        ("search_files", {"path": "/home/me/.ssh", "pattern": "KEY"}, "keys and passwords"),
    ],
)
async def test_what_a_command_would_ask_for_asks(
    machine: Machine, backend: str, name: str, arguments: dict[str, Any], about: str
) -> None:
    more: dict[str, Any] = {"content": "evil"} if name == "write_file" else {}
    said = await call(machine, name, backend=backend, **arguments, **more)
    assert said.startswith("asked ")
    assert about in said
    assert not machine.files


@pytest.mark.parametrize("backend", sorted(DISPOSABLE))
async def test_in_a_disposable_sandbox_nothing_asks(machine: Machine, backend: str) -> None:
    await call(machine, "write_file", backend=backend, path="/home/me/.bashrc", content="x\n")
    assert "1|x" in await call(machine, "read_file", backend=backend, path="/home/me/.bashrc")


async def test_ordinary_files_of_a_machine_need_no_question(machine: Machine) -> None:
    for path in ("a.py", "/workspace/b/.gitignore", "/home/me/notes.md", "/tmp/x"):
        await call(machine, "write_file", path=path, content="x\n")
        assert "1|x" in await call(machine, "read_file", path=path)
    machine.files["/workspace/b/../a.py"] = b""
    await call(machine, "read_file", path="/workspace/b/../a.py")


async def test_links_are_followed_before_a_path_is_judged(machine: Machine) -> None:
    machine.links = {
        "/workspace/notes": "/home/me",
        "/workspace/keys": "notes/.ssh",
        "/workspace/a.txt": "keys/../.bashrc",
        "/workspace/loop": "loop",
    }
    assert "/home/me/.bashrc" in await call(machine, "write_file", path="a.txt", content="x")
    assert "/home/me/.ssh/id_rsa" in await call(machine, "read_file", path="keys/id_rsa")
    said = await call(machine, "write_file", path="keys/../.profile", content="x")
    assert "/home/me/.profile" in said
    with pytest.raises(ToolFailed, match="too many symbolic links"):
        await call(machine, "read_file", path="loop")


@pytest.mark.parametrize("path", ["../x", "/workspace/../config.yaml", "a/../../x", "up/x"])
async def test_what_is_around_the_workspace_is_named_from_the_root_on(
    machine: Machine, path: str
) -> None:
    machine.links = {"/workspace/up": ".."}
    with pytest.raises(RetryWithHint, match="leads out of the workspace"):
        await call(machine, "write_file", path=path, content="x")


@pytest.mark.parametrize("path", ["/dev/sda", "/proc/sysrq-trigger"])
@pytest.mark.parametrize("asks", [True, False])
async def test_what_destroys_the_machine_is_refused_in_every_mode(
    machine: Machine, path: str, asks: bool
) -> None:
    with pytest.raises(ToolFailed, match="no person can allow it"):
        await call(machine, "write_file", path=path, content="x", asks=asks)
    assert not machine.files


async def test_an_answer_holds_for_the_same_file_and_the_same_words(machine: Machine) -> None:
    said = await call(machine, "write_file", path="/home/me/.bashrc", content="a")
    binding = said.split()[1]
    assert "\na" in said
    for content, path in (("b", "/home/me/.bashrc"), ("a", "/home/me/.zshrc")):
        other = await call(machine, "write_file", path=path, content=content, granted=binding)
        assert other.startswith("asked")
    await call(machine, "write_file", path="/home/me/.bashrc", content="a", granted=binding)
    assert machine.files["/home/me/.bashrc"] == b"a"
    decided = (Decision.DENY, binding)
    with pytest.raises(ToolFailed, match="denied"):
        await call(machine, "write_file", path="/home/me/.bashrc", content="a", decided=decided)
    decided = (Decision.ONCE, "another")
    with pytest.raises(ToolFailed, match="has changed since"):
        await call(machine, "write_file", path="/home/me/.bashrc", content="a", decided=decided)


async def test_secrets_are_not_shown_in_the_question(machine: Machine) -> None:
    content = "curl -H 'Authorization: Bearer abcdef0123456789abc' x"
    said = await call(machine, "write_file", path="/home/me/.bashrc", content=content)
    assert "[REDACTED]" in said
    assert "abcdef0123456789abc" not in said
