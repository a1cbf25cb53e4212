"""Tools as JSON schemas for the model, and a list of tools with the reason why one is off."""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct, json
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from agent_service.tools.base import Tool, ToolArguments


def describe(tool: Tool[Any]) -> dict[str, Any]:
    """The tool in the format of the chat completions API."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": inspect.cleandoc(tool.arguments.__doc__ or ""),
            "parameters": json.decode(_parameters(tool.arguments)),
        },
    }


@cache
def _parameters(arguments: type[ToolArguments]) -> bytes:
    """The encoded schema of the arguments, cached since building it takes milliseconds."""
    schema = arguments.model_json_schema(schema_generator=_WithoutTitles)
    schema.pop("description", None)
    return json.encode(schema)


def explain(error: ValidationError) -> str:
    """Which arguments are wrong and why, in one line for the model."""
    problems = (
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return "; ".join(problems) + "."


class _WithoutTitles(GenerateJsonSchema):
    """Omits the titles that pydantic adds, which cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        described = super().generate(schema, mode)
        for part in (described, *described.get("$defs", {}).values()):
            part.pop("title", None)
        return described


class Listed(Struct, frozen=True):
    """A tool, and why it is off."""

    tool: Tool[Any]
    missing: tuple[str, ...] = ()
    """Settings of which at least one must be set."""
    reason: str = ""
    """Another reason why it cannot be used; empty if there is none."""

    @property
    def is_on(self) -> bool:
        """Whether models may call it."""
        return not self.missing and not self.reason

    @property
    def summary(self) -> str:
        """The first paragraph of the description, on one line."""
        description: str = describe(self.tool)["function"]["description"]
        return " ".join(description.partition("\n\n")[0].split())


def offered(listed: Sequence[Listed]) -> Sequence[Tool[Any]]:
    """The tools that models may call."""
    return tuple(each.tool for each in listed if each.is_on)
