"""What counts as a slash command."""

import pytest

from gateway_service.commands import COMMANDS, parse
from gateway_service.messages import turn_command


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
        ("please /compress", None),
        ("/retry", ("retry", "")),
        ("/retry it", None),
    ],
)
def test_commands_that_are_turns(text: str, command: tuple[str, str] | None) -> None:
    assert turn_command(text) == command
    assert (parse(text) is None) is (command is not None or not text.startswith("/"))


def test_each_command_says_what_it_does_in_a_line() -> None:
    names = [command.name for command in COMMANDS]
    first = ["new", "stop", "approve", "deny", "status"]
    assert names == [*first, "steer", "retry", "undo", "personality", "compress", "help", "start"]
    assert all(command.help and "\n" not in command.help for command in COMMANDS)
