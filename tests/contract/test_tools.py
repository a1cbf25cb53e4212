"""What every tool keeps to, so that a model can use it and the loop can run it again."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from agent_service.memory.store import MemoryStore
from agent_service.tools.base import Effect, Tool
from agent_service.tools.builtin import Asking, builtin_tools
from agent_service.tools.judged import CommandPolicy
from agent_service.tools.schema import describe
from tests.reach import out_of_reach

SAMPLES: dict[str, dict[str, Any]] = {
    "terminal": {"command": "true"},
    "process": {"action": "list"},
    "read_file": {"path": "a"},
    "write_file": {"path": "a", "content": "b"},
    "patch": {"mode": "replace", "path": "a", "old_string": "b", "new_string": "c"},
    "search_files": {"pattern": "a"},
    "list_directory": {},
    "todo": {},
    "delegate_task": {"goal": "a"},
    "execute_code": {"code": "pass"},
    "clarify": {"question": "a"},
    "skills_list": {},
    "skill_view": {"name": "a"},
    "skill_manage": {"action": "archive", "name": "a"},
    "memory": {"target": "memory", "action": "add", "content": "a"},
    "web_search": {"query": "a"},
    "web_extract": {"urls": ["https://example.com/"]},
    "vision_analyze": {"image": "a.png"},
    "mixture_of_agents": {"prompt": "a"},
    "send_message": {"message": "a"},
}
TOOLSETS = {
    *("terminal", "file", "todo", "memory", "skills", "web", "vision", "mixture", "messaging"),
    *("clarify", "delegation", "code_execution"),
}
# None is ever called here.
MEMORIES = MemoryStore.__new__(MemoryStore)
LISTED = builtin_tools(out_of_reach(), memories=MEMORIES, asking=Asking(tainted=False))
TOOLS = {listed.tool.name: listed.tool for listed in LISTED}


def test_the_names_are_those_that_models_know() -> None:
    assert set(TOOLS) == set(SAMPLES)
    asked = builtin_tools(
        out_of_reach(), memories=MEMORIES, asking=Asking(commands=CommandPolicy())
    )
    assert [listed.tool.name for listed in asked] == list(TOOLS)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_the_schema_says_what_everything_means(tool: Tool[Any]) -> None:
    described = describe(tool)["function"]
    assert len(described["description"]) > 20
    schema = described["parameters"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for name, field in schema["properties"].items():
        assert field.get("description"), f"{tool.name}.{name} has no description"
    assert '"title"' not in json.dumps(schema)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_the_schema_is_the_same_every_time(tool: Tool[Any]) -> None:
    assert json.dumps(describe(tool)) == json.dumps(describe(tool))


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_arguments_that_are_not_known_are_refused(tool: Tool[Any]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        tool.arguments.model_validate({**SAMPLES[tool.name], "surprise": 1})


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_a_call_says_what_it_changes_and_whether_it_may_run_again(tool: Tool[Any]) -> None:
    arguments = tool.arguments.model_validate(SAMPLES[tool.name])
    assert tool.effect(arguments) in Effect
    assert all(isinstance(name, str) for name in tool.writes(arguments))
    assert tool.toolset in TOOLSETS
