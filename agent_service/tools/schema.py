"""A tool's arguments as the JSON schema that the model sees, and what is wrong with a call."""

import inspect
from functools import cache
from typing import Any

from msgspec import json
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from agent_service.tools.base import Tool, ToolArguments


def describe(tool: Tool[Any]) -> dict[str, Any]:
    """The tool in the form of the chat completions API."""
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
    """The schema of arguments, encoded: to make it takes milliseconds."""
    schema = arguments.model_json_schema(schema_generator=_WithoutTitles)
    schema.pop("description", None)
    return json.encode(schema)


def explain(error: ValidationError) -> str:
    """Which arguments are wrong and how, in one line for the model."""
    problems = (
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return "; ".join(problems) + "."


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out the titles that pydantic adds, which cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        described = super().generate(schema, mode)
        for part in (described, *described.get("$defs", {}).values()):
            part.pop("title", None)
        return described
