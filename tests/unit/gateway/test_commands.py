"""What counts as a slash command."""

import pytest

from gateway_service.commands import COMMANDS, parse


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


def test_each_command_says_what_it_does_in_a_line() -> None:
    names = [command.name for command in COMMANDS]
    assert names == ["new", "stop", "approve", "deny", "status", "help", "start"]
    assert all(command.help and "\n" not in command.help for command in COMMANDS)
