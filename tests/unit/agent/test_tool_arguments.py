"""What names and arguments of tool calls mean that are not written as they should be."""

import json
from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from agent_service.records.arguments import arguments_of, find_name, is_object, normalize
from agent_service.records.model import ToolCall, sent_call
from agent_service.tools.base import ToolArguments
from agent_service.tools.schema import validated

GIVEN = {"command": "echo A,\n\t]"}
WRITTEN = json.dumps(GIVEN)


class Item(ToolArguments):
    """An item."""

    id: str
    note: str = ""


class Arguments(ToolArguments):
    """Does something."""

    command: str
    timeout: float = 30.0
    background: bool = False
    mode: Literal["fast", "slow"] = "fast"
    folder: str = Field(default=".", min_length=1)
    items: list[Item] = Field(default_factory=list[Item])
    names: list[str] | None = None


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        json.dumps(WRITTEN),
        json.dumps(json.dumps(WRITTEN)),
        '{"command": "echo A,\n\t]"}',
        '{"command": "echo A,\\n\\t]",}',
        '{"command": "echo A,\\n\\t]",\n}\n',
        "{'command': 'echo A,\\n\\t]', }",
        f"```json\n{WRITTEN}\n```",
        f"```\n{WRITTEN}```",
        f"{WRITTEN}<|call|>",
        f"\ufeff{WRITTEN}}}",
        f"<parameters>{WRITTEN}</parameters>",
    ],
)
def test_arguments_that_mean_one_object_are_taken_as_it(text: str) -> None:
    assert arguments_of(text) == GIVEN
    assert json.loads(normalize(text)) == GIVEN
    assert is_object(normalize(text))


@pytest.mark.parametrize("text", ["", " \n", "null", '""', "[]", "{}", "```json\n```", '"null"'])
def test_nothing_means_no_arguments(text: str) -> None:
    assert arguments_of(text) == {}
    assert normalize(text) == "{}"


def test_an_object_stays_as_the_model_wrote_it() -> None:
    assert normalize('{ "a":1.0 }') == '{ "a":1.0 }'


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "echo h',
        '{"command": "a"} {"command": "b"}',
        f"I shall run {WRITTEN}",
        "[1]",
        "0",
        "false",
        '{"timeout": NaN}',
        "{'command': 'a'}; {'command': 'b'}",
        "{'command', 'a'}",
        '{"command": "\\ud83d"}',
        "[" * 100_000,
    ],
)
def test_what_means_no_single_object_is_refused_and_sent_back_as_one(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        arguments_of(text)
    assert normalize(text) == text
    sent = sent_call(ToolCall("a", "terminal", text))["function"]["arguments"]
    assert is_object(sent)
    assert json.loads(sent) == {"malformed": text}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("terminal", "terminal"),
        (" terminal\n", "terminal"),
        ("functions.terminal", "terminal"),
        ("functions.terminal:0", "terminal"),
        ("default_api:read_file", "read_file"),
        ("terminal<|channel|>commentary", "terminal"),
        ("<tool>read_file</tool>", "read_file"),
        ("mcp__hermes__read_file", "read_file"),
        ("Read_File", "read_file"),
        ("functions_terminal", "terminal"),
        ("read_file_tool", "read_file"),
        ("readFile", "read_file"),
        ("read-file", "read_file"),
        ("terminal.read_file", "terminal.read_file"),
        ("terminals", "terminals"),
        ("", ""),
    ],
)
def test_a_decorated_name_is_the_one_tool_in_it(written: str, name: str) -> None:
    assert find_name(written, ["terminal", "read_file"]) == name


def test_a_name_that_no_tool_has_goes_back_in_characters_that_all_providers_take() -> None:
    sent = sent_call(ToolCall("a", "read file<|x|>" + "y" * 99, "{}"))["function"]["name"]
    assert sent == ("read_file__x__" + "y" * 99)[:64]


@pytest.mark.parametrize(
    "more",
    [
        {"timeout": None, "background": None, "folder": None, "items": None, "names": None},
        {"timeout": "", "background": " ", "folder": "", "items": "", "mode": ""},
        {"timeout": "null", "background": "None", "items": "null", "mode": "none"},
        {"unknown": None},
        {"timeout": "30", "background": "false"},
        {"timeOut": '"30"', "Mode": " FAST", "items": {}},
    ],
)
def test_null_and_blank_are_as_if_left_out(more: dict[str, Any]) -> None:
    assert validated(Arguments, {"command": "x", **more}) == Arguments(command="x")


def test_texts_are_taken_for_the_lists_and_objects_in_them() -> None:
    found = validated(
        Arguments,
        {"command": 5, "items": '[{"id": 1, "note": null}, "{\\"id\\": \\"2\\"}"]', "names": "a"},
    )
    assert found.command == "5"
    assert found.items == [Item(id="1"), Item(id="2")]
    assert found.names == ["a"]


def test_what_is_wrapped_once_more_is_unwrapped() -> None:
    assert validated(Arguments, {"arguments": {"command": "x"}}) == Arguments(command="x")
    found = validated(Arguments, {"command": "x", "names": "['a', 'b']", "items": {"id": "1"}})
    assert (found.names, found.items) == (["a", "b"], [Item(id="1")])


@pytest.mark.parametrize(
    "given",
    [
        {"command": None},
        {"command": "x", "mode": "other"},
        {"command": "x", "timeout": "soon"},
        {"command": "x", "items": "all"},
        {"command": ["x"]},
        {"command": "x", "unknown": "y"},
        {"command": "x", "Command": "y"},
    ],
)
def test_what_is_wrong_stays_wrong(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        validated(Arguments, given)
