"""The parts of the documentation that are made from the code: options and tools.

`python -m tests.unit.docs_reference` writes them anew.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from agent_service.profiles.memory.store import MemoryStore
from agent_service.sessions.past_sessions import PastSessions
from agent_service.tools.builtin import builtin_tools
from agent_service.tools.schema import describe
from gateway_service.chats.access import Who
from gateway_service.commands.base import Command, Group, Places, Verb
from gateway_service.commands.registry import COMMANDS as SLASH_COMMANDS
from services.cli.main import COMMANDS, parser_of
from tests.observability.declared import declared, table
from tests.support.markdown import ROOT
from tests.support.reach import out_of_reach

TOOLS = [
    listed.tool
    for listed in builtin_tools(
        out_of_reach(),
        # None is ever called here.
        memories=MemoryStore.__new__(MemoryStore),
        past=PastSessions.__new__(PastSessions),
    )
]
COMMON = ("--help", "--home", "--profile")
"""Options of every command, explained once."""


def options(name: str) -> str:
    """The options of a command, a table for each of its actions."""
    tables = ["\n".join(_table(usage, parser)) for usage, parser in _parsers(name)]
    return "\n\n".join(table for table in tables if table) or "It has none of its own."


def tool(name: str) -> str:
    """A tool's description and its parameters."""
    described = next(
        each["function"] for each in map(describe, TOOLS) if each["function"]["name"] == name
    )
    schema = described["parameters"]
    rows = [
        f"| `{parameter}` | {_type(field, schema)} | {_default(parameter, field, schema)} "
        f"| {_line(field.get('description', ''))} |"
        for parameter, field in schema["properties"].items()
    ]
    head = ["| Parameter | Type | Default | Meaning |", "|---|---|---|---|"]
    return "\n".join([_paragraphs(described["description"]), "", *head, *rows])


def commands(group: str) -> str:
    """The slash commands that are about one thing."""
    rows = [
        f"| `{_typed(command, verb)}` | {_line(verb.help)} | {_limits(command, verb)} |"
        for command in SLASH_COMMANDS
        if command.group.value == group
        for verb in command.verbs
    ]
    return "\n".join(["| Command | Meaning | |", "|---|---|---|", *rows])


def _typed(command: Command, verb: Verb) -> str:
    return " ".join(filter(None, (f"/{command.name}", verb.name, verb.arguments))).replace(
        "|", "\\|"
    )


def _limits(command: Command, verb: Verb) -> str:
    limits = {
        "admins": verb.who is Who.ADMINS,
        "private": not command.places & Places.GROUP and command.places != Places.TERMINAL,
        "terminal": command.places == Places.TERMINAL,
    }
    return ", ".join(name for name, holds in limits.items() if holds)


GENERATED: Mapping[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "docs/cli.md": (options, tuple(COMMANDS)),
    "docs/tools.md": (
        tool,
        tuple(each.name for each in TOOLS if each.toolset not in ("browser", "rl")),
    ),
    "docs/browser.md": (tool, tuple(each.name for each in TOOLS if each.toolset == "browser")),
    "docs/research.md": (tool, tuple(each.name for each in TOOLS if each.toolset == "rl")),
    "docs/commands.md": (commands, tuple(group.value for group in Group)),
    "docs/operators/observability.md": (table, tuple(declared())),
}
"""Each page with what makes its parts, and the names of the parts, in their order."""


def with_parts(path: str, document: str) -> str:
    """A page with its generated parts as they are to be."""
    make, names = GENERATED[path]
    for name in names:
        begin, end = f"<!-- made from the code: {name} -->", "<!-- end -->"
        before, found, rest = document.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{path} has no place for {name}: {begin} … {end}")
        document = f"{before}{begin}\n\n{make(name)}\n\n{end}{after}"
    return document


def _parsers(name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    parser = parser_of(name)
    yield "", parser
    for action in actions_of(parser):
        if isinstance(action.choices, Mapping):
            for word, inner in cast("Mapping[str, Any]", action.choices).items():
                yield f"hermes {name} {word}", inner


def _table(usage: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [
        f"| {_names(action)} | {_line(_meaning(action))} |"
        for action in actions_of(parser)
        if action.help is not argparse.SUPPRESS
        and not isinstance(action.choices, Mapping)
        and not set(action.option_strings) & set(COMMON)
    ]
    if rows:
        yield from (f"| {f'`{usage}`' if usage else 'Option'} | Meaning |", "|---|---|", *rows)


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options and arguments that a parser takes."""
    return vars(parser)["_actions"]  # argparse tells of its actions in no other way


def _names(action: argparse.Action) -> str:
    value = (
        "" if action.nargs == 0 else str(action.metavar or action.dest.rpartition(".")[2].upper())
    )
    if not action.option_strings:
        return f"`{action.metavar or action.dest.upper()}`"
    return ", ".join(f"`{option} {value}`".replace(" `", "`") for option in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    said = [action.help] if action.help else []
    if action.choices:
        said.append(", ".join(f"`{choice}`" for choice in action.choices))
    return ": ".join(said)


def _type(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "$ref" in field:
        field = schema["$defs"][field["$ref"].rpartition("/")[2]]
        return "object with " + ", ".join(f"`{name}`" for name in field["properties"])
    if "anyOf" in field:
        return next(_type(each, schema) for each in field["anyOf"] if each.get("type") != "null")
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field["type"] == "array":
        return f"list of {_type(field['items'], schema)}"
    limits = (("minimum", "at least"), ("exclusiveMinimum", "more than"), ("maximum", "at most"))
    return ", ".join([field["type"], *(f"{t} {field[n]}" for n, t in limits if n in field)])


def _default(name: str, field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if name in schema.get("required", ()):
        return "required"
    default = field.get("default")
    return "" if default in (None, "") else f"`{json.dumps(default)}`"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


if __name__ == "__main__":
    for path in GENERATED:
        written = (ROOT / path).read_text(encoding="utf-8")
        (ROOT / path).write_text(with_parts(path, written), encoding="utf-8")
