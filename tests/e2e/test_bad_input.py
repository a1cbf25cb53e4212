"""What goes wrong says so in one clear line, loses nothing, and never shows a traceback."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process, running
from tests.e2e.home import HERMES, Home, Result, check_complaint
from tests.e2e.model import ModelProcess
from tests.support.ports import free_port
from tests.support.requirements import require

BUBBLEWRAP = sandboxed("bubblewrap")


@pytest.fixture
def home(model: ModelProcess, tmp_path: Path) -> Home:
    """A home in which all is well."""
    return one_process(tmp_path, model.url, BUBBLEWRAP).client


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("--profile ann memory show", "put the command before --profile; see hermes --help"),
        ("nothing", "unknown command 'nothing'; see hermes --help"),
        ("memroy --json", "unknown command 'memroy'; did you mean memory?"),
        ("help memroy", "unknown command 'memroy'; did you mean memory?"),
        ("jobs lst", "unknown action 'lst'; did you mean list?"),
        ("certs x", "'x'; choose from init, issue, publish; see hermes certs --help"),
        ("serve agnt", "unknown service 'agnt'; did you mean agent?"),
        ("serve kitchen", "choose from agent, executor, gateway, scheduler; see hermes serve"),
        ("chat --moedl x", "--moedl x; see hermes chat --help"),
        ("chat --json", "--json needs -q"),
        ("chat", "to ask one question: hermes chat -q"),
        ("config set agnt.max_turns 3", "agnt.max_turns: is not a known key; did you mean "),
        ("serve agent --listen x", "--listen (command line): 'x' is not an address; "),
    ],
)
def test_a_wrong_command_line_says_what_to_do(tmp_path: Path, typed: str, told: str) -> None:
    wrong = Home.make(tmp_path).run(*typed.split())
    check_complaint(wrong, told)
    assert wrong.status == 2


@pytest.mark.parametrize("typed", ["help", "help jobs", "help jobs add"])
def test_help_is_a_command(tmp_path: Path, typed: str) -> None:
    told = Home.make(tmp_path).run(*typed.split())
    assert (told.status, told.err) == (0, "")
    assert told.out.startswith(f"usage: hermes{typed.removeprefix('help')} ")


def test_a_home_that_wants_the_host_gets_a_sandbox(home: Home, tmp_path: Path) -> None:
    home.configure({"terminal": {"backend": "local", "cwd": "."}})
    asked = home.run("chat", "-q", "touch a file", "--json")
    assert asked.status == 0
    (line,) = asked.complaints
    assert "terminal.backend: local" in line
    (call,) = asked.json["tool_calls"]
    assert call["exit_code"] == 0
    assert call["backend"] in ("docker", "bubblewrap")
    assert call["backend"] in line, "the line says which sandbox is used instead"
    made = [path for path in tmp_path.rglob("made") if "workspaces" not in path.parts]
    assert made == [], "the command ran on the host"


def test_an_endpoint_that_does_not_answer(home: Home) -> None:
    address = f"127.0.0.1:{free_port()}"
    away = home.set(HERMES_BASE_URL=f"http://{address}/v1")
    retries = 3
    asked = away.run("chat", "-q", "hello")
    check_complaint(asked, address, "nothing listens there", lines=1 + retries)
    unnamed = home.set(HERMES_BASE_URL=f"http://{address}/v1", HERMES_MODEL="")
    asked = unnamed.run("chat", "-q", "hello")
    check_complaint(asked, address, "nothing listens there", lines=1)
    nonsense = home.set(HERMES_BASE_URL="not a url")
    check_complaint(nonsense.run("config", "check"), "HERMES_BASE_URL (", "https://host/v1")


def test_a_service_alone_needs_an_address_and_certificates(home: Home) -> None:
    check_complaint(home.run("serve", "agent"), "hermes certs init", "host:port", "hermes up")


def test_a_wrong_key(home: Home) -> None:
    refused = home.run("chat", "-q", "refuse my key")
    check_complaint(refused, "refused the key", "check HERMES_API_KEY")
    assert "test-key" not in refused.err


@pytest.mark.usefixtures("usual_ports")
def test_no_model_at_all(tmp_path: Path) -> None:
    home = Home.make(tmp_path, BUBBLEWRAP)
    asked = home.run("chat", "-q", "hello")
    check_complaint(asked, "OPENROUTER_API_KEY", ".env", "hermes setup", "hermes demo", lines=5)


def test_a_docker_backend_without_an_engine(home: Home, tmp_path: Path) -> None:
    home.configure(sandboxed("docker"))
    dead = home.set(DOCKER_HOST=f"unix://{tmp_path}/docker.sock")
    asked = dead.run("chat", "-q", "touch a file")
    check_complaint(asked, f"{tmp_path}/docker.sock", "start Docker", "leave it out")
    assert list(tmp_path.rglob("made")) == [], "nothing ran anywhere else"


def test_a_corrupt_database(home: Home) -> None:
    path = home.path / "state" / "agent.db"
    path.parent.mkdir()
    damaged = b"not a database, but somebody's data\n" * 1000
    path.write_bytes(damaged)
    check_complaint(home.run("up", "--no-chat"), f"{path} is damaged", "put a backup in its place")
    (home.path / "plugins" / "memory" / "elephant").mkdir(parents=True)
    with (home.path / "config.yaml").open("a") as config:
        config.write("memory: {provider: elephant}\n")
    doctor = home.run("doctor", "--json")
    (kept,), (named,) = _checks(doctor, "plugins"), _checks(doctor, "config")
    assert "elephant in plugins/memory is kept" in kept["message"]
    assert "memory.provider (" in named["message"]
    assert "config.yaml, line" in named["message"]
    assert doctor.status == 1
    assert any(str(path) in check["message"] for check in doctor.json)
    assert path.read_bytes() == damaged, "what is in the file may still be saved"


@pytest.mark.slow
def test_a_service_elsewhere_is_waited_for_and_then_named(home: Home) -> None:
    address = f"127.0.0.1:{free_port()}"
    asked = home.set(HERMES_GATEWAY_ADDRESS=address).run("chat", "-q", "hello")
    waiting, gone = asked.err.splitlines()
    assert f"waiting for the gateway service at {address}" in waiting
    assert f"the gateway service at {address} does not answer" in gone
    assert "hermes serve gateway" in gone


def _checks(doctor: Result, name: str) -> list[dict[str, str]]:
    return [check for check in doctor.json if check["check"] == name]


@pytest.fixture
def small_disk(model: ModelProcess, tmp_path: Path) -> Iterator[Home]:
    """A home on a file system of its own of 8 MiB."""
    home = one_process(tmp_path, model.url, BUBBLEWRAP).client
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "hermes-test", home.path],
        capture_output=True,
        text=True,
        check=False,
    )
    require("root", mounted.returncode == 0, f"a small disk cannot be made: {mounted.stderr}")
    try:
        home.configure(BUBBLEWRAP)
        yield home
    finally:
        subprocess.run(["umount", home.path], check=True)


def test_a_disk_that_fills_while_hermes_runs(small_disk: Home, tmp_path: Path) -> None:
    deployment = one_process(tmp_path / "unused", small_disk.variables["HERMES_BASE_URL"], {})
    server = type(deployment.servers["up"])("up", small_disk, "up", "--no-chat")
    filler = small_disk.path / "filler"
    with running(type(deployment)(small_disk, {"up": server}, tmp_path)):
        first = small_disk.ask("hello")
        _fill(filler)
        check_complaint(small_disk.run("chat", "-q", "hello"), "no space is left", "free some")
        filler.unlink()
        again = small_disk.ask("hello again", "--resume", first["session_id"])
        assert again["answer"] == "You said: hello again"


def test_a_home_that_may_not_be_written(home: Home) -> None:
    folder, is_root = str(home.path), os.geteuid() == 0
    wrapper: list[str] = []
    if is_root:
        shutil.chown(home.path, 65534, 65534)
        powers = "-dac_override,-dac_read_search,-fowner"
        wrapper = ["setpriv", "--bounding-set", powers, "--inh-caps", powers, "--"]
    home.path.chmod(0o555)
    try:
        refused = _run(home, wrapper, ["up", "--no-chat"])
        check_complaint(refused, "no permission", folder, "chown" if is_root else "chmod u+rwx")
        home.path.chmod(0o000)
        closed = _run(home, wrapper, ["chat", "-q", "hello"])
        check_complaint(closed, f"give your user access to {folder} (", "HERMES_HOME")
    finally:
        home.path.chmod(0o755)


def _run(home: Home, wrapper: list[str], argv: list[str]) -> Result:
    done: Any = subprocess.run(
        [*wrapper, HERMES, *argv],
        env=home.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def _fill(path: Path) -> None:
    """Write until nothing more fits, not even a byte."""
    with path.open("wb", buffering=0) as stream:
        for size in (65536, 512, 1):
            try:
                while stream.write(b"x" * size):
                    pass
            except OSError:
                continue
