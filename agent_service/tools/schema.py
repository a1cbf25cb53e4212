"""Tools as JSON schemas for the model, and a list of tools with the reason why one is off."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, cast

from msgspec import Struct, json
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import ErrorDetails

from agent_service.records.arguments import decoded, plain
from agent_service.tools.base import DescribedTool, Tool, ToolArguments

_EMPTY: tuple[object, ...] = (None, "", False, [])
_LENGTHS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_LEFT_OUT: tuple[object, ...] = (None, "", "null", "none", "undefined", [], {})
_WRAPPERS = frozenset({"arguments", "input", "parameters"})

A = TypeVar("A", bound=ToolArguments)

LEAN: Mapping[str, Sequence[str]] = {
    "terminal": ("command", "timeout"),
    "read_file": ("path", "offset", "limit"),
    "write_file": ("path", "content"),
    "patch": ("mode", "path", "old_string", "new_string"),
    "memory": ("target", "action", "content", "old_text"),
    "skills_list": (),
    "skill_view": ("name", "file_path"),
}
"""The tools for models with little context, and which of their arguments are described."""

LEAN_TOOLSETS = frozenset({"terminal", "file", "memory", "skills"})


def describe_briefly(tool: Tool[Any]) -> dict[str, Any]:
    """The tool as `LEAN` has it: the first paragraph of its description and some arguments."""
    described = describe(tool)
    function = described["function"]
    function["description"] = _first_paragraph(function["description"])
    parameters, names = function["parameters"], LEAN[tool.name]
    properties = {name: parameters["properties"][name] for name in names}
    required = [name for name in parameters.get("required", ()) if name in names]
    function["parameters"] = {"type": "object", "properties": properties, "required": required}
    return described


def _first_paragraph(description: str) -> str:
    return " ".join(description.partition("\n\n")[0].split())


def describe(tool: Tool[Any]) -> dict[str, Any]:
    """The tool in the format of the chat completions API."""
    if isinstance(tool, DescribedTool):
        description, parameters = tool.description, tool.parameters.encode()
    else:
        description = inspect.cleandoc(tool.arguments.__doc__ or "")
        parameters = _parameters(tool.arguments)
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": description,
            "parameters": json.decode(parameters),
        },
    }


@cache
def _parameters(arguments: type[ToolArguments]) -> bytes:
    """The encoded schema of the arguments, cached since building it takes milliseconds."""
    schema = arguments.model_json_schema(schema_generator=_WithoutTitles)
    schema.pop("description", None)
    return json.encode(_slimmed(schema))


def _slimmed(schema: Any) -> Any:
    """Leave out what costs tokens and tells a model little: empty defaults, nulls and lengths."""
    if isinstance(schema, list):
        return [_slimmed(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: _slimmed(value)
        for name, value in cast("dict[str, Any]", schema).items()
        if name not in _LENGTHS and not (name == "default" and value in _EMPTY)
    }
    kinds = [kind for kind in kept.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del kept["anyOf"]
        return {**kinds[0], **kept}
    return kept


def validated(arguments: type[A], given: dict[str, Any]) -> A:
    """Validate arguments; raises ValidationError.

    An invalid value is taken as the one thing that it can mean: null or blank as left out, a text
    as the JSON in it or as a list of one, a name or choice in another case as the known one.
    """
    names = {plain(name): name for name in arguments.model_fields}
    if len(given) == 1 and given.keys() <= _WRAPPERS - arguments.model_fields.keys():
        (inner,) = given.values()
        given = cast("dict[str, Any]", inner) if isinstance(inner, dict) else given
    for name in given.keys() - names.values():
        if (meant := names.get(plain(name), name)) not in given:
            given[meant] = given.pop(name)
    while True:
        try:
            return arguments.model_validate(given)
        except ValidationError as error:
            if not any(_mended(given, item) for item in error.errors(include_url=False)):
                raise


def _mended(given: dict[str, Any], error: ErrorDetails) -> bool:
    """Change a value that has a problem to what it means; False if that is unclear."""
    holder: Any = given
    place, problem = error["loc"], error["type"]
    try:
        for part in place[:-1]:
            holder = holder[part]
        value: Any = holder[place[-1]]
    except (LookupError, TypeError):
        return False
    written = value.strip().lower() if isinstance(value, str) else value
    if isinstance(holder, dict) and written in _LEFT_OUT:
        del holder[place[-1]]
        return True
    if problem == "literal_error" and f"'{written}'" in error.get("ctx", {})["expected"]:
        holder[place[-1]] = written
        return written != value
    found: Any = [value] if problem == "list_type" else value
    if isinstance(value, str) and problem.endswith(("_type", "_parsing", "literal_error")):
        with suppress(ValueError, RecursionError):
            found = decoded(value)
    holder[place[-1]] = found
    return found != value


def explain(error: ValidationError) -> str:
    """Which arguments are wrong and why, in one line for the model."""
    problems = (
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return "; ".join(problems) + "."


class _WithoutTitles(GenerateJsonSchema):
    """Omits what pydantic adds, which costs tokens: titles, and all but the fields of items."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        described = super().generate(schema, mode)
        described.pop("title", None)
        for part in described.get("$defs", {}).values():
            for name in ("title", "description", "additionalProperties"):
                part.pop(name, None)
        return described


class Listed(Struct, frozen=True):
    """A tool, and why it is off."""

    tool: Tool[Any]
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_on(self) -> bool:
        return not self.missing and not self.reason

    @property
    def summary(self) -> str:
        description: str = describe(self.tool)["function"]["description"]
        return _first_paragraph(description)


def offered(listed: Sequence[Listed]) -> Sequence[Tool[Any]]:
    """The tools that models may call."""
    return tuple(each.tool for each in listed if each.is_on)
