"""Sandboxes and workspaces as their operator sees them, while an agent has them."""

import fcntl
import re
import signal
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import Deployment, one_process, running
from tests.e2e.home import Home, check_complaint
from tests.e2e.model import MARKER, ModelProcess
from tests.e2e.processes import wait_until, with_marker
from tests.e2e.terminal import COLUMNS, CTRL_C, Terminal, terminal

CTRL_RIGHT_BRACKET = "\x1d"
PROMPT = r"[$#] ?$"


@pytest.fixture
def session(up: Deployment) -> str:
    """A session that has a sandbox."""
    return up.client.ask("who are you")["session_id"]


@pytest.fixture
def sandbox(up: Deployment, session: str) -> str:
    """That sandbox."""
    return described(up.client, session)["sandbox_id"]


def described(home: Home, session: str) -> dict[str, Any]:
    """What the list says of a session's sandbox."""
    listed = home.run("sandboxes", "list", "--json").json
    (found,) = [one for one in listed if one["session_id"] == session]
    return found


def test_sandboxes_can_be_tried_and_are_given_back(up: Deployment, backend: str) -> None:
    tried = up.client.run("sandboxes", "try", "--network-denied", "--json", "--", "id", "-u")
    (found,) = tried.json
    assert (found["backend"], found["status"], found["reached"]) == (backend, 0, [])
    assert int(found["output"]) > 0
    listed = up.client.run("sandboxes", "list", "--all", "--json").json
    assert not [one for one in listed if one["session_id"].startswith("trial_")]
    failed = up.client.run("sandboxes", "try", "--", "sh", "-c", "echo no; exit 3")
    assert failed.status == 1
    assert "no\n" in failed.out
    assert "status 3" in failed.err


def test_a_sandbox_is_listed_as_long_as_it_lives(
    up: Deployment, session: str, sandbox: str, backend: str
) -> None:
    found = described(up.client, session)
    assert (found["backend"], found["isolation"], found["state"]) == (backend, "namespace", "ready")
    assert (found["profile"], found["template"]) == ("default", "default")
    assert found["network_policy"]["mode"] == "none"
    assert found["running_command_count"] == 0
    assert 0 < found["expires_in"] <= 30 * 60
    for options in ([], ["--all"]):
        shown = up.client.run("sandboxes", "list", *options).out
        assert sandbox in shown
        assert session in shown
    check_complaint(up.client.run("sandboxes", "kill", sandbox), "--yes")
    assert up.client.run("sandboxes", "kill", sandbox, "--yes").status == 0
    assert sandbox not in up.client.run("sandboxes", "list", "--all").out
    assert up.client.run("sandboxes", "logs", sandbox).out.endswith("/workspace\n")
    check_complaint(up.client.run("sandboxes", "open", sandbox), "there is no sandbox")
    check_complaint(up.client.run("sandboxes", "logs", "none"), "see hermes sandboxes list --all")
    # What the session had in its workspace is there again.
    assert up.client.ask("who are you", "--resume", session)["tool_calls"][0]["exit_code"] == 0
    assert described(up.client, session)["sandbox_id"] != sandbox


def test_a_command_takes_input_and_gives_its_output_and_status(
    up: Deployment, session: str, sandbox: str
) -> None:
    data = "line of input\n" * 200_000
    script = "cat; echo to stderr >&2; exit 7"
    piped = up.client.run("sandboxes", "open", sandbox, "--", "sh", "-c", script, text=data)
    assert (piped.status, piped.out, piped.err) == (7, data, "to stderr\n")
    shell = up.client.run("sandboxes", "open", session, text="echo from a shell; cat\nthe rest")
    assert (shell.status, shell.out) == (0, "from a shell\nthe rest")
    killed = up.client.run("sandboxes", "open", sandbox, "--", "sh", "-c", "kill -9 $$")
    assert killed.status == 128 + 9
    missing = up.client.run("sandboxes", "open", sandbox, "--", "no-such-program")
    check_complaint(missing, "no-such-program")
    # All that time the session went on having it.
    (call,) = up.client.ask("who are you", "--resume", session)["tool_calls"]
    assert call["sandbox_id"] == sandbox


def test_a_shell_in_a_terminal(up: Deployment, sandbox: str) -> None:
    with terminal(up.client, "sandboxes", "open", sandbox) as shell:
        before = attributes(shell)
        shell.wait_for(PROMPT)
        assert attributes(shell) != before, "keys go to the shell as they are"
        shell.type("echo $((6 * 7)) $TERM; stty size")
        shell.wait_for("^42 xterm-256color\n100 110$")
        shell.type(f"sleep {MARKER}")
        wait_until(lambda: bool(with_marker(MARKER)), "the shell runs it")
        shell.press(CTRL_C)
        shell.type("echo still $((1 + 1))")
        shell.wait_for("^still 2$")
        resize(shell, 30, COLUMNS)
        shell.type('until [ "$(stty size)" = "30 110" ]; do sleep 0.05; done; echo re""sized')
        shell.wait_for("^resized$")
        shell.type("exit 5")
        assert shell.wait_end() == 5
        assert attributes(shell) == before


def test_a_shell_that_is_left_goes_on(up: Deployment, session: str, sandbox: str) -> None:
    with terminal(up.client, "sandboxes", "open", sandbox) as shell:
        shell.wait_for(PROMPT)
        shell.type("kept=yes")
        shell.press(CTRL_RIGHT_BRACKET * 2)
        assert shell.wait_end() == 0
        exec_id = re.findall(r"--exec\s+(\S+)", shell.screen)[-1]
    assert described(up.client, session)["running_command_count"] == 1
    with terminal(up.client, "sandboxes", "open", sandbox, "--exec", exec_id) as shell:
        shell.type("echo it is $kept")
        shell.wait_for("^it is yes$")
        shell.type("exit")
        assert shell.wait_end() == 0
    assert described(up.client, session)["running_command_count"] == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_was_opened_ends_with_who_opened_it(
    up: Deployment, session: str, sandbox: str, number: signal.Signals
) -> None:
    with up.client.spawn("sandboxes", "open", sandbox, "--", "sleep", "600") as opened:
        wait_until(lambda: described(up.client, session)["running_command_count"] == 1, "it runs")
        opened.send_signal(number)
        _, err = opened.communicate(timeout=20)
    assert opened.returncode in (1, 130)
    assert "Traceback" not in err
    assert described(up.client, session)["running_command_count"] == 0


def test_what_commands_wrote_can_be_read_and_followed(up: Deployment, sandbox: str) -> None:
    script = "echo first; echo wrong >&2; while [ ! -e go ]; do sleep 0.05; done; echo last"
    with up.client.spawn("sandboxes", "open", sandbox, "--", "sh", "-c", script) as opened:
        wait_until(lambda: "first" in up.client.run("sandboxes", "logs", sandbox).out, "it runs")
        shown = up.client.run("sandboxes", "logs", sandbox).out
        exec_id = next(line.split()[1] for line in shown.splitlines() if line.endswith("  running"))
        with up.client.spawn("sandboxes", "logs", sandbox, exec_id, "--follow") as following:
            up.client.run("sandboxes", "open", sandbox, "--", "touch", "go")
            out, err = following.communicate(timeout=20)
        opened.communicate(timeout=20)
    assert (out, err) == ("first\nlast\n", "wrong\n")
    listed = up.client.run("sandboxes", "logs", sandbox).out.splitlines()
    (heading,) = [line for line in listed if line.startswith(f"── {exec_id} ")]
    assert "  exit 0 after " in heading
    alone = up.client.run("sandboxes", "logs", sandbox, exec_id)
    assert (alone.out, alone.err) == ("first\nlast\n", "wrong\n")


def test_a_restart_of_the_executor_leaves_running_what_is_open(
    model: ModelProcess, tmp_path: Path
) -> None:
    made = one_process(tmp_path, model.url, sandboxed("bubblewrap"))
    with running(made) as deployment:
        session = deployment.client.ask("who are you")["session_id"]
        sandbox = described(deployment.client, session)["sandbox_id"]
        argv = ["sandboxes", "open", sandbox, "--", "sh", "-c", "echo begun; cat"]
        with deployment.client.spawn(*argv, stdin=subprocess.PIPE) as opened:
            assert opened.stdin is not None
            assert opened.stdout is not None
            opened.stdin.write("early\n")
            opened.stdin.flush()
            assert [opened.stdout.readline() for _ in range(2)] == ["begun\n", "early\n"]
            deployment.kill()
            deployment.start()
            out, err = opened.communicate(timeout=30)
        assert (opened.returncode, out) == (1, "")
        assert "hermes: the connection to the command was lost" in err
        exec_id = re.findall(r"--exec (\S+)", err)[-1]
        again = deployment.client.run("sandboxes", "open", sandbox, "--exec", exec_id, text="late")
    assert (again.status, again.out) == (0, "begun\nearly\nlate")


def test_nothing_is_started_to_look_at_sandboxes(model: ModelProcess, tmp_path: Path) -> None:
    home = one_process(tmp_path, model.url, sandboxed("bubblewrap")).client
    for action in (["list"], ["open", "sbx_1"], ["kill", "sbx_1", "--yes"], ["logs", "sbx_1"]):
        check_complaint(home.run("sandboxes", *action), "hermes up")
    assert not list((home.path / "state").glob("*"))


def attributes(shown: Terminal) -> list[Any]:
    """How the terminal is set."""
    return termios.tcgetattr(shown.descriptor)


def resize(shown: Terminal, rows: int, columns: int) -> None:
    """Make the terminal another size, as its window does."""
    fcntl.ioctl(shown.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_a_workspace_is_listed_copied_kept_and_deleted(up: Deployment, session: str) -> None:
    client = up.client
    listed = client.run("workspaces", "list", "--json").json
    (found,) = [one for one in listed if session in one["session_ids"]]
    ident = found["workspace_id"]
    assert (found["state"], found["active_session_ids"]) == ("ready", [session])
    assert (
        client.run("sandboxes", "open", session, "--", "sh", "-c", "echo kept > file").status == 0
    )
    shown = client.run("workspaces", "list").out
    assert ident in shown
    assert session in shown
    check_complaint(client.run("workspaces", "delete", ident, "--yes"), "in use by session")
    check_complaint(client.run("workspaces", "delete", ident), "--yes")
    check_complaint(client.run("workspaces", "fork", "wsp_nothing"), "there is no workspace")
    fork = client.run("workspaces", "fork", session, "--name", "other", "--json").json
    assert (fork["source_id"], fork["name"], fork["session_ids"]) == (ident, "other", [])
    assert fork["size_bytes"] > 0
    assert fork["limit_bytes"] == 10 * 2**30
    taken = client.run("workspaces", "snapshot", ident, "--json").json
    assert taken["workspace_id"] == ident
    snapshot = taken["snapshot_id"]
    assert snapshot in client.run("workspaces", "list", "--snapshots").out
    said = client.run("workspaces", "fork", snapshot).out
    again = said.split()[-1]
    assert said == f"copied {snapshot} to {again}\n"
    for one in (fork["workspace_id"], again, snapshot):
        assert client.run("workspaces", "delete", one, "--yes").out == f"deleted {one}\n"
    left = client.run("workspaces", "list").out
    assert ident in left
    assert again not in left
    assert "no snapshots" in client.run("workspaces", "list", "--snapshots").out
