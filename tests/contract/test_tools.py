"""What every tool keeps to, so that a model can use it and the loop can run it again."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from agent_service.config.toolsets import FOR_JOBS
from agent_service.profiles.memory.store import MemoryStore
from agent_service.records.requests import REVIEW
from agent_service.sessions.past_sessions import PastSessions
from agent_service.tools.base import Tool
from agent_service.tools.builtin import ApprovalPolicy, builtin_tools
from agent_service.tools.guards.commands import CommandPolicy
from agent_service.tools.guards.refusals import refused
from agent_service.tools.schema import describe
from agent_service.tools.toolbox import Toolbox
from agent_service.turns.delegation import Delegation
from tests.support.reach import out_of_reach
from tests.unit.agent.test_toolbox import turn

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
    "session_search": {},
    "skills_list": {},
    "skill_view": {"name": "a"},
    "skill_manage": {"action": "create", "name": "a", "content": "b"},
    "memory": {"target": "memory", "action": "add", "content": "a"},
    "web_search": {"query": "a"},
    "web_extract": {"urls": ["https://example.com/"]},
    "vision_analyze": {"image": "a.png"},
    "transcribe_audio": {"audio": "a.ogg"},
    "text_to_speech": {"text": "a"},
    "image_generate": {"prompt": "a"},
    "ha_list_entities": {},
    "ha_get_state": {"entity_id": "light.a"},
    "ha_list_services": {},
    "ha_call_service": {"domain": "light", "service": "turn_on"},
    "mixture_of_agents": {"prompt": "a"},
    "send_message": {"message": "a"},
    "cronjob": {"action": "list"},
    "rl_list_environments": {},
    "rl_start": {"environment": "a"},
    "rl_status": {"run": "a"},
    "rl_stop": {"run": "a"},
    "rl_results": {"run": "a"},
    "honcho_context": {"query": "a"},
    "honcho_search": {"query": "a"},
    "honcho_conclude": {"conclusion": "a"},
    "browser_navigate": {"url": "https://example.com/"},
    "browser_snapshot": {},
    "browser_click": {"ref": "e1"},
    "browser_type": {"ref": "e1", "text": "a"},
    "browser_press": {"key": "Enter"},
    "browser_select": {"ref": "e1", "values": ["a"]},
    "browser_scroll": {},
    "browser_back": {},
    "browser_screenshot": {},
    "browser_console": {},
    "browser_upload": {"ref": "e1", "paths": ["a"]},
    "browser_download": {},
    "browser_tabs": {"action": "list"},
}
KINDS = {
    "terminal": "terminal keyed job subagent",
    "process": "terminal pure job subagent",
    "read_file": "file pure job subagent",
    "write_file": "file pure job subagent",
    "patch": "file unsafe job subagent",
    "search_files": "file keyed job subagent",
    "list_directory": "file pure job subagent",
    "todo": "todo pure job subagent",
    "clarify": "clarify keyed",
    "memory": "memory keyed job review",
    "session_search": "session pure job subagent",
    "skills_list": "skills pure job subagent review",
    "skill_view": "skills pure job subagent review",
    "skill_manage": "skills keyed job subagent review",
    "delegate_task": "delegation keyed job",
    "execute_code": "code_execution keyed job subagent",
    "web_search": "web pure job subagent",
    "web_extract": "web pure job subagent",
    "vision_analyze": "vision pure job subagent",
    "transcribe_audio": "transcription pure job subagent",
    "text_to_speech": "tts keyed job subagent",
    "image_generate": "image_gen keyed job subagent",
    "ha_list_entities": "homeassistant pure job subagent",
    "ha_get_state": "homeassistant pure job subagent",
    "ha_list_services": "homeassistant pure job subagent",
    "ha_call_service": "homeassistant unsafe job subagent",
    "mixture_of_agents": "mixture pure job subagent",
    "browser_navigate": "browser pure job subagent",
    "browser_snapshot": "browser pure job subagent",
    "browser_click": "browser unsafe job subagent",
    "browser_type": "browser unsafe job subagent",
    "browser_press": "browser unsafe job subagent",
    "browser_select": "browser unsafe job subagent",
    "browser_scroll": "browser pure job subagent",
    "browser_back": "browser unsafe job subagent",
    "browser_screenshot": "browser pure job subagent",
    "browser_console": "browser pure job subagent",
    "browser_upload": "browser unsafe job subagent",
    "browser_download": "browser unsafe job subagent",
    "browser_tabs": "browser unsafe job subagent",
    "cronjob": "cron pure",
    "send_message": "messaging keyed",
    "rl_list_environments": "rl pure job",
    "rl_start": "rl keyed job",
    "rl_status": "rl pure job",
    "rl_stop": "rl keyed job",
    "rl_results": "rl pure job",
    "honcho_context": "honcho pure job",
    "honcho_search": "honcho pure job",
    "honcho_conclude": "honcho unsafe job",
}
"""Of each tool its toolset, its effect, and the turns besides those of users which may use it."""
PARAMETERS = {
    "terminal": "command* background timeout workdir pty notify_on_complete watch_patterns",
    "process": "action* session_id data timeout offset limit",
    "read_file": "path* offset=1 limit=500",
    "write_file": "path* content*",
    "patch": "mode* path old_string new_string replace_all patch",
    "search_files": "pattern* target path file_glob limit=50 offset output_mode context",
    "list_directory": "path depth=1",
    "todo": "todos merge",
    "delegate_task": "goal context tasks toolsets",
    "execute_code": "code*",
    "clarify": "question* choices",
    "session_search": "query limit=3 sort session_id around_message_id window role_filter",
    "skills_list": "category",
    "skill_view": "name* file_path",
    "skill_manage": "action* name* content old_string new_string replace_all category file_path "
    "file_content absorbed_into",
    "memory": "target* action content old_text operations",
    "web_search": "query* limit",
    "web_extract": "urls*",
    "vision_analyze": "image* question images",
    "transcribe_audio": "audio*",
    "text_to_speech": "text* voice",
    "image_generate": "prompt* aspect_ratio images",
    "ha_list_entities": "domain area",
    "ha_get_state": "entity_id*",
    "ha_list_services": "domain",
    "ha_call_service": "domain* service* entity_id area data",
    "mixture_of_agents": "prompt*",
    "send_message": "action target message",
    "cronjob": "action* job_id prompt schedule name repeat deliver skills model script no_agent "
    "context_from enabled_toolsets workdir",
    "rl_list_environments": "",
    "rl_start": "environment* groups group_size=1 model budget_usd max_model_calls seed",
    "rl_status": "run*",
    "rl_stop": "run*",
    "rl_results": "run* limit=20",
    "honcho_context": "query*",
    "honcho_search": "query* limit=10",
    "honcho_conclude": "conclusion*",
    "browser_navigate": "url*",
    "browser_snapshot": "full",
    "browser_click": "ref* double accept_dialog dialog_text",
    "browser_type": "ref* text* submit",
    "browser_press": "key*",
    "browser_select": "ref* values*",
    "browser_scroll": "direction ref",
    "browser_back": "",
    "browser_screenshot": "full_page ref",
    "browser_console": "clear",
    "browser_upload": "ref* paths*",
    "browser_download": "ref",
    "browser_tabs": "action tab",
}
"""What models know of each tool by heart; `*` is required."""
CHOICES = {
    ("process", "action"): "list poll log wait kill write submit close",
    ("patch", "mode"): "replace patch",
    ("search_files", "target"): "content files",
    ("memory", "target"): "memory user",
    ("memory", "action"): "add replace remove",
    ("skill_manage", "action"): "create patch edit write_file remove_file archive delete",
    ("send_message", "action"): "send list",
    ("browser_scroll", "direction"): "down up",
    ("browser_tabs", "action"): "list new select close",
    ("cronjob", "action"): "create list update pause resume remove run",
}
# None is ever called here.
MEMORIES = MemoryStore.__new__(MemoryStore)
PAST = PastSessions.__new__(PastSessions)
LISTED = builtin_tools(
    out_of_reach(), memories=MEMORIES, asking=ApprovalPolicy(tainted=False), past=PAST
)
TOOLS = {listed.tool.name: listed.tool for listed in LISTED}


def test_the_names_are_those_that_models_know() -> None:
    assert set(TOOLS) == set(SAMPLES)
    asked = builtin_tools(
        out_of_reach(),
        memories=MEMORIES,
        asking=ApprovalPolicy(commands=CommandPolicy()),
        past=PAST,
    )
    assert [listed.tool.name for listed in asked] == list(TOOLS)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_the_parameters_are_those_that_models_know(tool: Tool[Any]) -> None:
    schema = describe(tool)["function"]["parameters"]
    fields = schema["properties"]
    words = [word.partition("=") for word in PARAMETERS[tool.name].split()]
    assert list(fields) == [name.removesuffix("*") for name, *_ in words]
    required = [name.removesuffix("*") for name, *_ in words if name.endswith("*")]
    assert schema.get("required", []) == required
    defaults = {name: int(value) for name, _, value in words if value}
    assert {name: fields[name]["default"] for name in defaults} == defaults


@pytest.mark.parametrize(("place", "choices"), CHOICES.items(), ids=map(".".join, CHOICES))
def test_what_can_be_chosen_is_what_models_know(place: tuple[str, str], choices: str) -> None:
    name, field = place
    schema = describe(TOOLS[name])["function"]["parameters"]["properties"][field]
    either = schema.get("anyOf", [schema])
    assert next(one["enum"] for one in either if "enum" in one) == choices.split()


def test_what_looks_at_a_file_waits_for_who_changes_it() -> None:
    changed = TOOLS["write_file"].writes(
        TOOLS["write_file"].arguments.model_validate({"path": "./a.png", "content": ""})
    )
    named = {"read_file": "path", "vision_analyze": "image", "transcribe_audio": "audio"}
    for name, field in named.items():
        for path in ("a.png", "/workspace/a.png"):
            arguments = TOOLS[name].arguments.model_validate({field: path})
            assert TOOLS[name].writes(arguments) == changed


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
def test_arguments_that_are_not_known_are_refused(tool: Tool[Any]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        tool.arguments.model_validate({**SAMPLES[tool.name], "surprise": 1})


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_a_tool_has_a_toolset_an_effect_and_turns_that_may_use_it(tool: Tool[Any]) -> None:
    arguments = tool.arguments.model_validate(SAMPLES[tool.name])
    named = {kind for kind, names in allowed().items() if tool.name in names}
    assert (tool.toolset, str(tool.effect(arguments)), named) == (
        *KINDS[tool.name].split()[:2],
        {*KINDS[tool.name].split()[2:]},
    )


@cache
def allowed() -> Mapping[str, set[str]]:
    """The names of the tools that turns of each kind but users' may use."""
    unused: Any = None
    toolbox = Toolbox([*TOOLS.values()], unused)
    sets = frozenset(tool.toolset for tool in TOOLS.values())
    handed_on = Delegation(unused, sets, 1, unused).allowed(turn(), ())
    review = turn()
    review.request = replace(review.request, kind=REVIEW)

    def is_run(tool: Tool[Any]) -> bool:
        return not refused(review, tool, tool.arguments.model_validate(SAMPLES[tool.name]))

    return {
        "job": offered_by(toolbox, FOR_JOBS),
        "subagent": offered_by(toolbox, handed_on),
        # A review is offered all that its session has, and may call little of it.
        "review": {tool.name for tool in TOOLS.values() if is_run(tool)},
    }


def offered_by(toolbox: Toolbox, toolsets: Sequence[str]) -> set[str]:
    described = json.loads(toolbox.schemas(frozenset(toolsets)))
    return {each["function"]["name"] for each in described}


def test_a_review_puts_no_skill_away() -> None:
    review, tool = turn(), TOOLS["skill_manage"]
    review.request = replace(review.request, kind=REVIEW)
    for action, more in (("archive", {}), ("delete", {}), ("create", {"content": "a"})):
        arguments = tool.arguments.model_validate({"action": action, "name": "a", **more})
        assert bool(refused(review, tool, arguments)) == (action != "create")
