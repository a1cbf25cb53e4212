"""Parts of commands: what they read, ask, refuse and find by its name."""

import argparse
import importlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from blockbuster import BlockBuster
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from hermes.agent.v1 import usage_pb2 as pb
from hermes.executor.v1 import sandbox_pb2
from services.amounts import dollars
from services.cli import config as config_command
from services.cli import first_run, process, startup
from services.cli.admin import doctor, setup, setup_platforms
from services.cli.admin.setup_answers import Answers
from services.cli.budget import change_request
from services.cli.chat.command import why_not_mounted
from services.cli.demo_model import step_for
from services.cli.main import parser_of
from services.cli.sandboxes.executors import Executor, Executors, places_of
from services.cli.sandboxes.trial import PROBE
from services.cli.startup import load
from services.errors import InvalidArgument, NotFound, ServiceUnavailable
from services.rpc.addresses import TcpAddress, parse_address
from tests.unit.services.settings import settings


@pytest.mark.parametrize("given", [{"profile": "ann"}, {"profile": None}], ids=["option", "name"])
def test_a_profile_is_asked_for_by_name_however_it_was_named(
    tmp_path: Path, given: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles" / "ann").mkdir(parents=True)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_PROFILE", "" if given["profile"] else "ann")
    arguments = argparse.Namespace(**given)
    assert load(arguments).home.root == tmp_path / "profiles" / "ann"
    assert arguments.profile == "ann"


def test_who_names_no_profile_asks_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    arguments = argparse.Namespace(profile=None)
    assert load(arguments).home.root == tmp_path
    assert arguments.profile is None


SHORT, LONG, OTHER, SILENT = "one:740", "one:7402", "other:7402", "other:74020"


@pytest.fixture
async def deployment() -> Executors:
    """Some whose endpoints begin alike, one of which is silent."""
    channel = grpc.aio.insecure_channel("unix:/nowhere")
    found = sandbox_pb2.GetCapabilitiesResponse()
    each = [Executor(endpoint, channel, found) for endpoint in (SHORT, LONG, OTHER)]
    return Executors(each, {SILENT: "does not answer"})


async def test_an_executor_behind_a_tunnel_has_the_name_after_the_hash() -> None:
    address = parse_address("127.0.0.1:7402#hermes-executor.hermes.svc")
    assert isinstance(address, TcpAddress)
    (place,) = await places_of(address)
    assert (place.host, place.server_name) == ("127.0.0.1", "hermes-executor.hermes.svc")


async def test_an_executor_is_named_by_its_endpoint_or_the_beginning_of_one(
    deployment: Executors,
) -> None:
    for endpoint in (SHORT, LONG, OTHER):
        assert deployment.one(endpoint).endpoint == endpoint
    with pytest.raises(InvalidArgument, match="matches"):
        deployment.one("o")
    with pytest.raises(ServiceUnavailable, match=f"{SILENT} does not answer"):
        deployment.one(SILENT)
    with pytest.raises(NotFound, match="no executor 'nobody'"):
        deployment.one("nobody")


def asked(*arguments: str) -> pb.SetBudgetRequest:
    return change_request(parser_of("budget").parse_args(["set", *arguments]))


def test_amounts_are_read_exactly() -> None:
    request = asked("day", "--usd", "2.500001", "--tokens", "7", "--profile", "work")
    assert request == pb.SetBudgetRequest(
        profile="work",
        scope=pb.BUDGET_SCOPE_DAY,
        limit=pb.BudgetAmount(micro_usd=2_500_001, tokens=7),
    )
    assert asked("session", "--id", "s", "--usd", "$1").scope_id == "s"


def test_no_limit_and_the_default_are_two_things() -> None:
    assert asked("job", "--unlimited").HasField("limit")
    assert not asked("job", "--default").HasField("limit")


@pytest.mark.parametrize(
    "arguments", [(), ("--unlimited", "--default"), ("--usd", "1", "--unlimited")]
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        asked("day", *arguments)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1e30", "much"])
@pytest.mark.parametrize("option", ["--usd", "--tokens"])
def test_what_is_no_amount_is_refused(option: str, value: str) -> None:
    with pytest.raises(SystemExit):
        asked("day", f"{option}={value}")


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [(0, "$0.00"), (500, "$0.0005"), (1_000_000, "$1.00"), (1_234_567_890, "$1,234.57")],
)
def test_amounts_are_shown_as_people_read_them(micro_usd: int, text: str) -> None:
    assert dollars(micro_usd) == text


@pytest.mark.parametrize(("typed", "chosen"), [("2", "b"), ("9", "i"), ("10", "j"), ("11", "k")])
def test_each_number_of_a_list_chooses(blockbuster: BlockBuster, typed: str, chosen: str) -> None:
    blockbuster.functions["os.read"].deactivate()  # the library reads the keys on its loop
    options = [(letter, letter.upper()) for letter in "abcdefghijk"]
    with create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
        keys.send_text(f"{typed}\r")
        assert Answers(asks=True).choose("Which?", options, "a") == chosen


NAMES = (
    *process.BUILDERS.values(),
    *doctor.CHECKS.values(),
    *(first_run.MODEL_CHOICE, config_command.ENDPOINT_PROBLEMS),
    *(setup.LOCAL_SERVERS, setup.OFFERED_MODELS, setup.WINDOW_OF, setup.SANDBOXES),
    setup_platforms.CHECKS,
)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_can_be_called(name: str) -> None:
    module, _, function = name.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("name", startup.MODEL_MODULES)
def test_each_service_says_what_can_be_configured(name: str) -> None:
    assert importlib.import_module(name).MODELS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Hermes in the home folder, beside a project."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for name in ("me/hermes/skills", "me/project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "me")
    return tmp_path / "me" / "hermes"


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("me/project", ""),
        ("me", "the home folder itself"),
        ("link", "the home folder itself"),
        ("me/hermes", "which holds keys"),
        ("me/hermes/skills", "which holds keys"),
        (".", "which holds keys"),
        ("/", "the whole file system"),
    ],
)
def test_folders_that_no_executor_binds_are_left_out(
    tmp_path: Path, home: Path, folder: str, why: str
) -> None:
    said = why_not_mounted(settings(home), tmp_path / folder)
    assert why in said
    assert bool(said) == bool(why)


@pytest.mark.parametrize("service", ["gateway", "executor"])
def test_folders_are_left_out_where_commands_run_elsewhere(
    tmp_path: Path, home: Path, service: str
) -> None:
    def said(address: str) -> str:
        variables = {f"HERMES_{service.upper()}_ADDRESS": address}
        return why_not_mounted(settings(home, environ=variables), tmp_path / "me" / "project")

    assert said("example.org:50051") == (f"the {service} is on another machine (example.org:50051)")
    assert said("127.0.0.1:50051") == ""
    assert said(f"unix:{tmp_path}/other.sock") == ""


def test_what_is_reached_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # without listening
        port, silent = there.getsockname()[1], nobody.getsockname()[1]
        places = [f"127.0.0.1 {port}", f"127.0.0.1 {silent}"]
        command = [sys.executable, "-c", PROBE, *places]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == places[:1]


CALL: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("What system are you on?", ["terminal"]),
        ("Please write a file", ["write_file", "read_file"]),
        ("run four in parallel", ["terminal"] * 4),
        ("do something slow", ["terminal"]),
        ("Guten Tag", []),
    ],
)
def test_the_demo_does_what_it_offers_and_says_what_it_is(said: str, tools: list[str]) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": said}]
    called: list[str] = []
    for _ in range(5):
        text, calls = step_for(messages)
        assert text.startswith("(scripted demo)")
        called += [name for name, _ in calls]
        if not calls:
            break
        messages += [CALL, *({"role": "tool", "content": "output"} for _ in calls)]
    assert called == tools
