"""Executors on machines of their own: nothing is shared with the agent but one port."""

import socket
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.model import TELL, Json, calls, model_process, rule, terminal_call, tool_call
from tests.e2e.nodes import PORT, Cluster, Node, NodeServer, cluster, need_nodes
from tests.e2e.processes import wait_until, with_marker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MOVED_WITHIN_S = 10.0
"""How long a session may be without an executor, the time of its model included."""
COLLECTED_AFTER_S = 3.0
"""How long after a sandbox's end an executor has removed a workspace in which nothing is."""
HIGHEST_PORT = 65_535
MARKER = "7411.25"
"""Seconds that no other sleep on this machine takes."""
RUNNING = 2
"""Processes with that in their command lines: the sleep, and the shell that has begun it."""
ENGINES = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")

RULES: tuple[Json, ...] = (
    rule(
        "every tool",
        calls(tool_call("write_file", path="src/note.txt", content="one\ntwo\n")),
        calls(
            tool_call(
                "patch", mode="replace", path="src/note.txt", old_string="two", new_string="three"
            )
        ),
        calls(tool_call("read_file", path="src/note.txt")),
        calls(tool_call("search_files", pattern="thr..", path="src")),
        calls(tool_call("list_directory", path="src")),
        calls(terminal_call("cat src/note.txt; id -u; ls -d /root /home")),
        TELL,
    ),
    rule("leave a file", calls(terminal_call("echo kept >file; echo it is there")), TELL),
    rule("show the file", calls(terminal_call("cat file || echo there is none")), TELL),
    rule("look around", calls(terminal_call("ls -A | wc -l")), TELL),
    rule(
        "keep notes",
        calls(terminal_call("mkdir lib; echo Speak plainly. >lib/AGENTS.md; echo 1 >lib/a.txt")),
        TELL,
    ),
    rule("read the code", calls(tool_call("read_file", path="lib/a.txt")), TELL),
    rule("in the background", calls(terminal_call(f"sleep {MARKER}", background=True)), TELL),
    rule("sleep long", calls(terminal_call(f"sleep {MARKER}", timeout=600)), TELL),
    rule("", {"text": "You said: {user}"}),
)


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scripted model, on this machine."""
    with model_process(tmp_path_factory.mktemp("model"), RULES) as process:
        yield process.url


@pytest.fixture
def apart(two_apart: Cluster) -> Cluster:
    """Two executors, each with a disk of its own, both of which run."""
    two_apart.deployment.start()
    return two_apart


@pytest.fixture(scope="module")
def two_apart(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A deployment for all tests that kill no more than they start again."""
    need_nodes()
    with cluster(tmp_path_factory.mktemp("apart"), model_url) as running:
        yield running


@pytest.fixture(scope="module")
def together(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two executors that have the same folder for workspaces."""
    need_nodes()
    with cluster(tmp_path_factory.mktemp("together"), model_url, shared=True) as running:
        yield running


def test_every_tool_works_over_the_network_alone(apart: Cluster) -> None:
    answered = apart.client.ask("every tool")
    names = [call["name"] for call in answered["tool_calls"]]
    assert names == [
        *("write_file", "patch", "read_file", "search_files", "list_directory", "terminal")
    ]
    # The last command ends with an error because the folders of this machine are not there.
    assert [call["is_error"] for call in answered["tool_calls"]] == [False] * 5 + [True]
    for line in ("one", "three", "1000"):
        assert line in answered["answer"].splitlines()
    assert answered["answer"].count("No such file") == 2
    assert not list(apart.deployment.folder.rglob("wsp_*")), "the agent has no such folder"


def test_an_agent_that_was_killed_finds_the_executor_again(apart: Cluster) -> None:
    sessions = [apart.client.ask("leave a file")["session_id"] for _ in range(3)]
    holders = [apart.executor_of(session) for session in sessions]
    agent = apart.deployment.servers["agent"]
    agent.kill()
    agent.start()
    agent.wait_ready()
    for session, holder in zip(sessions, holders, strict=True):
        assert apart.client.ask("show the file", "--resume", session)["answer"] == "kept"
        assert apart.executor_of(session) is holder


def test_only_the_port_of_the_executor_can_be_reached(apart: Cluster) -> None:
    for node in apart.nodes:
        assert _open_ports(node.host) == [PORT]


def test_the_executor_reaches_nobody(apart: Cluster) -> None:
    node, other = apart.nodes
    places = apart.client.variables
    ports = [
        int(places[f"HERMES_{name}_ADDRESS"].rpartition(":")[2])
        for name in ("AGENT", "GATEWAY", "SCHEDULER")
    ]
    for port in (*ports, 22, 2375, 2376):
        assert "refused" in _connect_from(node, node.gateway, port)
    assert "unreachable" in _connect_from(node, other.host, PORT)
    assert "unreachable" in _connect_from(node, "198.51.100.1", 443)


def test_no_path_and_no_engine_is_shared(apart: Cluster) -> None:
    agents = (apart.deployment.folder, Path.home() / ".hermes", *map(Path, ENGINES))
    for server in apart.executors:
        for path in agents:
            assert not (server.node.root / path.relative_to("/")).exists(), path
        ours = {device for device, _ in _mounts("self")}
        writable = {device for device, options in _mounts(str(server.pid)) if "rw" in options}
        assert not writable & ours - _devices(), "what it can write is seen by nobody else"


def test_a_session_goes_on_when_its_executor_is_killed(apart: Cluster) -> None:
    session = apart.client.ask("leave a file")["session_id"]
    apart.client.ask("in the background", "--resume", session)
    wait_until(lambda: len(with_marker(MARKER)) == RUNNING, "it runs in the background")
    running = with_marker(MARKER)
    dead = apart.executor_of(session)
    dead.kill()
    with within(MOVED_WITHIN_S, "a new session"):
        fresh = apart.client.ask("leave a file")
    assert not fresh["tool_calls"][0]["is_error"]
    with within(MOVED_WITHIN_S, "a session that was there"):
        told = apart.client.ask("show the file", "--resume", session)["answer"]
    assert "The sandbox is gone with the executor" in told
    assert "does not have the files" in told
    assert "there is none" in told
    assert apart.executor_of(session) is not dead
    assert with_marker(MARKER) == running != [], "its box lives on, as nobody can reach it"
    dead.start()
    dead.wait_ready()
    wait_until(lambda: not with_marker(MARKER), "what was left behind is ended")
    again = apart.client.ask("show the file", "--resume", session)["answer"]
    assert "gone" not in again, "it is told once"
    assert apart.executor_of(session) is not dead


def test_a_session_goes_on_when_its_executor_cannot_be_reached(apart: Cluster) -> None:
    session = apart.client.ask("leave a file")["session_id"]
    cut_off = apart.executor_of(session)
    cut_off.node.cut_off()
    try:
        with within(MOVED_WITHIN_S, "a session whose executor is cut off"):
            told = apart.client.ask("show the file", "--resume", session)["answer"]
        for _ in range(2):
            with within(MOVED_WITHIN_S, "a new session while one is cut off"):
                apart.client.ask("leave a file")
    finally:
        cut_off.node.cut_off(cut=False)
    assert "The sandbox is gone with the executor" in told
    assert apart.executor_of(session) is not cut_off


def test_a_command_of_a_killed_executor_is_not_run_again(apart: Cluster) -> None:
    session = apart.client.ask("leave a file")["session_id"]
    dead = apart.executor_of(session)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(apart.client.ask, "sleep long", "--resume", session)
        wait_until(lambda: len(with_marker(MARKER)) == RUNNING, "the command runs")
        running = with_marker(MARKER)
        dead.kill()
        with within(MOVED_WITHIN_S, "a command that ran there"):
            answered = asking.result()
    assert "It is not known whether this call took effect" in answered["answer"]
    assert with_marker(MARKER) == running, "it runs on where it was, and nowhere else"
    assert (
        "gone with the executor" in apart.client.ask("show the file", "--resume", session)["answer"]
    )
    dead.start()
    dead.wait_ready()
    wait_until(lambda: not with_marker(MARKER), "what was left behind is ended")


def test_a_session_keeps_its_files_where_executors_share_them(together: Cluster) -> None:
    session = together.client.ask("leave a file")["session_id"]
    dead = together.executor_of(session)
    empty = _session_at(together, dead, "look around")
    dead.kill()
    with within(MOVED_WITHIN_S, "a session and its files"):
        told = together.client.ask("show the file", "--resume", session)["answer"]
    assert "The sandbox is gone with the executor" in told
    assert "over the same /workspace" in told
    assert told.endswith("kept")
    assert together.client.ask("look around", "--resume", empty)["answer"].endswith("0")
    dead.start()
    dead.wait_ready()
    wait_until(
        lambda: together.deployment.logs().count("which its session had left, is ended") == 2,
        "what was left behind is ended",
    )
    time.sleep(COLLECTED_AFTER_S)
    # Whoever had them first has not taken them for its own, full or empty.
    assert together.client.ask("show the file", "--resume", session)["answer"] == "kept"
    wrote = together.client.ask("leave a file", "--resume", empty)
    assert wrote["answer"] == "it is there"


def _session_at(cluster: Cluster, server: NodeServer, question: str) -> str:
    """A new session that an executor has."""
    for _ in range(8):
        session = cluster.client.ask(question)["session_id"]
        if cluster.executor_of(session) is server:
            return session
    raise AssertionError(f"{server.name} gets no session")


@contextmanager
def within(seconds: float, what: str) -> Generator[None]:
    """Hold a block to a time, and show what it took."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    print(f"{what}: {took:.2f} s")
    assert took < seconds, f"{what} took {took:.1f} s"


def _open_ports(host: str) -> list[int]:
    found: list[int] = []
    for port in range(1, HIGHEST_PORT + 1):
        with socket.socket() as probe:
            probe.settimeout(2)
            if probe.connect_ex((host, port)) == 0:
                found.append(port)
    return found


def _connect_from(node: Node, host: str, port: int) -> str:
    """How an attempt to connect ends that is made on a node."""
    script = f"import socket; socket.create_connection(({host!r}, {port}), 2)"
    return node.run("/usr/bin/python3", "-c", script).stderr.lower()


def _mounts(process: str) -> list[tuple[str, set[str]]]:
    """The device and the options of each of a process's mounts."""
    lines = Path(f"/proc/{process}/mountinfo").read_text().splitlines()
    return [(fields[2], set(fields[5].split(","))) for fields in map(str.split, lines)]


def _devices() -> set[str]:
    """The file system of device files, of which a node has the harmless ones."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[2] for line in lines if " - devtmpfs " in line}
