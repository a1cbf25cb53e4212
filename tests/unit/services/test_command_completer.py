"""What the terminal completes of slash commands."""

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from hermes.gateway.v1.conversation_pb2 import SlashCommand
from services.cli.chat.completer import CommandCompleter

COMMANDS = (
    SlashCommand(name="cron", help="jobs", words=["list", "add", "show"]),
    SlashCommand(name="compress", help="condense"),
    SlashCommand(name="paper_search", help="Finds papers.", skill="research/paper-search"),
)

LOCAL_NAMES = ("/edit", "/quit", "/exit", "/clear", "/compact", "/cost")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("/", ["/cron", "/compress", "/paper_search", *LOCAL_NAMES]),
        ("/c", ["/cron", "/compress", "/clear", "/compact", "/cost"]),
        ("/CR", ["/cron"]),
        ("/paper-s", ["/paper_search"]),
        ("/x", []),
        ("/cron ", ["list", "add", "show"]),
        ("/cron s", ["show"]),
        ("/cron show s", []),
        ("/compress ", []),
        ("what is /c", []),
        ("c", []),
    ],
)
def test_what_is_completed(typed: str, completed: list[str]) -> None:
    completer = CommandCompleter()
    document = Document(typed)
    before = {each.text for each in completer.get_completions(document, CompleteEvent())}
    assert before <= set(LOCAL_NAMES)
    completer.know(COMMANDS)
    found = list(completer.get_completions(document, CompleteEvent()))
    assert [each.text for each in found] == completed
    for each in found:
        whole = typed[: len(typed) + each.start_position] + each.text
        assert whole.startswith("/")


def test_other_names_mean_the_same_unless_a_skill_has_them() -> None:
    completer = CommandCompleter()
    completer.know(COMMANDS)
    said = ("/clear", "/Compact", "/cost", "/compress", "/clear it", "clear", "/edit")
    meant = ("/new", "/compress", "/usage", "/compress", "/new it", "clear", "/edit")
    assert tuple(map(completer.expand, said)) == meant
    completer.know([*COMMANDS, SlashCommand(name="clear", skill="tidy/clear")])
    assert completer.expand("/clear") == "/clear"


def test_other_names_work_before_the_commands_are_known() -> None:
    assert CommandCompleter().expand("/clear") == "/new"
