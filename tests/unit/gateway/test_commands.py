"""What counts as a slash command, what of it is meant, and which names skills have as commands."""

import re

import pytest

from gateway_service.commands.base import ANYWHERE, Command, Group, Places, Verb
from gateway_service.commands.registry import COMMANDS, parse
from gateway_service.commands.skills import command_name, command_names, find_skill
from gateway_service.messages import Source, TurnRequest, turn_command
from hermes.agent.v1.skill_pb2 import Skill


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/stop", ("stop", "")),
        ("  /Stop@hermes_bot  ", ("stop", "")),
        ("/approve session", ("approve", "session")),
        ("/approve\n  session \n", ("approve", "session")),
        ("/no-such_thing a b", ("no-such_thing", "a b")),
        ("/etc/hosts", None),
        ("/etc/hosts has what?", None),
        ("/", None),
        ("//", None),
        ("/1", None),
        ("stop", None),
        ("what does /stop do?", None),
    ],
)
def test_parse(text: str, command: tuple[str, str] | None) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/compress", ("compress", "")),
        (" /compress@my_bot ", ("compress", "")),
        ("/compress it", None),
        ("/steer use\ngreen", ("steer", "use\ngreen")),
        ("/steer@my_bot use green", ("steer", "use green")),
        ("/steer", None),
        ("/steering", None),
        ("/queue then tell me", ("queue", "then tell me")),
        ("/queue", None),
        ("please /compress", None),
        ("/retry", ("retry", "")),
        ("/retry it", None),
    ],
)
def test_commands_that_are_turns(text: str, command: tuple[str, str] | None) -> None:
    assert turn_command(text) == command


def named(name: str) -> Command:
    return next(command for command in COMMANDS if command.name == name)


@pytest.mark.parametrize(
    ("name", "arguments", "verb", "rest"),
    [
        ("cron", "", "list", ""),
        ("cron", "ADD  in 2 hours\nlook", "add", "in 2 hours\nlook"),
        ("cron", "additional", None, "additional"),
        ("approve", "", "", ""),
        ("approve", "always", "always", ""),
        ("approve", "whatever", None, "whatever"),
        ("model", "", "show", ""),
        ("model", "list claude", "list", "claude"),
        ("model", "some/model", "set", "some/model"),
        ("skills", "arxiv", "view", "arxiv"),
        ("title", "show me", "", "show me"),
    ],
)
def test_what_is_meant(name: str, arguments: str, verb: str | None, rest: str) -> None:
    found, left = named(name).verb(arguments)
    assert ((None if found is None else found.name), left) == (verb, rest)


def test_each_command_is_whole() -> None:
    names = [command.name for command in COMMANDS]
    assert len(set(names)) == len(names)
    told = [text for each in COMMANDS for text in (each.help, *(verb.help for verb in each.verbs))]
    assert all(text and "\n" not in text for text in told)
    for command in COMMANDS:
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,31}", command.name)
        assert command.example.startswith(f"/{command.name}")
        words = [verb.name for verb in command.verbs]
        assert len(set(words)) == len(words)
        assert not command.otherwise or command.otherwise in words
        assert command.places & ANYWHERE


def test_what_commands_there_are() -> None:
    spec = (
        "new reset retry undo stop model personality compress usage status title resume sessions "
        "steer approve deny skills memory tools cron curator whoami help start quit queue busy "
        "pairing platforms sethome"
    )
    assert {command.name for command in COMMANDS} == set(spec.split())


def test_what_a_group_would_read_along_is_not_said_there() -> None:
    private = {each.name for each in COMMANDS if not each.places & Places.GROUP}
    spec = "resume sessions memory curator cron quit pairing platforms"
    assert private == set(spec.split())


def test_what_changes_the_deployment_or_costs_is_for_admins() -> None:
    admins = {
        f"{command.name} {verb.name}".rstrip()
        for command in COMMANDS
        for verb in command.verbs
        if verb.who != "everybody"
    }
    cron = {f"cron {verb.name}" for verb in named("cron").verbs}
    curator = {f"curator {verb.name}" for verb in named("curator").verbs}
    others = {"memory history", "memory undo", "model set", "approve always"}
    people = {"pairing list", "pairing approve", "pairing revoke", "sethome", "sethome clear"}
    assert admins == cron | curator | others | people | {"sessions", "resume", "platforms"}


def skill(name: str, category: str = "") -> Skill:
    return Skill(name=name, category=category, description=f"About {name}.")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("arxiv", "arxiv"),
        ("paper-search", "paper_search"),
        ("model", "skill_model"),
        ("3d-print", "skill_3d_print"),
        ("a-very-long-name-for-a-skill-of-theirs", "a_very_long_name_for_a_skill_of"),
    ],
)
def test_the_command_of_a_skill(name: str, command: str) -> None:
    assert command_name(name, COMMANDS) == command
    assert find_skill(command, [skill(name), skill("other")], COMMANDS) == [skill(name)]


def test_a_skill_never_shadows_a_command_and_never_another_skill() -> None:
    verb = Verb("", "help", COMMANDS[0].verbs[0].run)
    table = (*COMMANDS, Command("plan", Group.CHAT, "plan", (verb,), "/plan"))
    skills = [skill("plan"), skill("notes", "a"), skill("notes", "b"), skill("notes-long")]
    assert set(command_names(skills, table)) == {"skill_plan", "notes_long"}
    assert find_skill("plan", skills, table) == []
    assert len(find_skill("notes", skills, table)) == 2
    assert find_skill("notes-long", skills, table) == [skill("notes-long")]


@pytest.mark.parametrize(
    ("text", "skill_path", "said"),
    [
        ("/arxiv@hermes_bot find papers\non x", "research/arxiv", "find papers\non x"),
        ("/arxiv", "research/arxiv", "Follow the skill research/arxiv."),
        ("/steer left", "", "left"),
        ("/nothing known", "", "/nothing known"),
    ],
)
def test_what_the_agent_is_told(text: str, skill_path: str, said: str) -> None:
    order = TurnRequest("trn_1", "default", "s", Source("cli", "s"), text, skill=skill_path)
    assert order.prompt == said
