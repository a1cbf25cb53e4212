"""Calls that a program makes: each once, whatever happens between them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agent_service.records.calls import PendingCall, StepState
from agent_service.records.model import ToolCall
from agent_service.tools.base import ToolResult
from agent_service.tools.guards.approval import DecisionRequired
from agent_service.tools.inner import JournaledCalls, inner_key
from agent_service.tools.memory import MemoryTool
from agent_service.tools.patching.patch import Patch
from agent_service.tools.shell.terminal import Terminal

OUTER = PendingCall("trn_1:2", ToolCall("call_1", "execute_code", "{}"), 2, 5)
PATCH = '{"mode": "replace"}'


class State:
    """The session's values, and how often one was stored."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def get(self, name: str) -> Any:
        return self.values.get(name)

    async def add(self, name: str, text: str) -> None:
        raise AssertionError(name)

    async def put(self, name: str, value: Any) -> None:
        self.values[name] = value


class Door:
    """Makes calls as it is told to, and remembers them and what was in the journal by then."""

    def __init__(self, state: State, does: Callable[[], Awaitable[ToolResult]]) -> None:
        self.state = state
        self.does = does
        self.calls: list[PendingCall] = []
        self.journal: list[dict[str, Any]] = []

    async def __call__(self, call: PendingCall) -> ToolResult:
        self.calls.append(call)
        self.journal.append(dict(self.state.values))
        return await self.does()


async def _works() -> ToolResult:
    return ToolResult("done", exit_code=0, notices=("mind this",))


async def _dies() -> ToolResult:
    raise KeyboardInterrupt


async def _asks() -> ToolResult:
    raise DecisionRequired("may I?", "binding")


def calls_of(door: Door, outer: PendingCall = OUTER) -> JournaledCalls:
    memory = MemoryTool.__new__(MemoryTool)
    return JournaledCalls(outer, door.state, door, [Terminal(), Patch(), memory], {})


async def test_a_call_is_in_the_journal_before_it_is_made_and_is_made_once() -> None:
    door = Door(State(), _works)
    first = await calls_of(door).call(1, "patch", PATCH)
    again = await calls_of(door).call(1, "patch", PATCH)
    assert first == again == await _works()
    assert [call.key for call in door.calls] == ["trn_1:2.1"]
    assert door.calls[0].state is StepState.INTENT
    assert door.journal == [{"inner:1": {"key": "trn_1:2.1"}}]


async def test_a_call_that_may_have_been_made_says_so_to_what_judges_it() -> None:
    door = Door(State(), _dies)
    with pytest.raises(KeyboardInterrupt):
        await calls_of(door).call(1, "patch", PATCH)
    door.does = _works
    await calls_of(door).call(1, "patch", PATCH)
    assert [call.state for call in door.calls] == [StepState.INTENT, StepState.DISPATCHED]


async def test_a_call_that_waits_for_a_person_has_not_begun() -> None:
    door = Door(State(), _asks)
    with pytest.raises(DecisionRequired, match="may I") as asked:
        await calls_of(door).call(3, "terminal", '{"command": "rm"}')
    assert asked.value.call is not None
    assert asked.value.call.key == inner_key(OUTER.key, 3)
    assert asked.value.call.call.name == "terminal"
    door.does = _works
    assert (await calls_of(door).call(3, "terminal", '{"command": "rm"}')).text == "done"
    assert [call.state for call in door.calls] == [StepState.INTENT, StepState.INTENT]


async def test_the_calls_of_the_next_program_are_others() -> None:
    door = Door(State(), _works)
    await calls_of(door).call(1, "patch", PATCH)
    other = PendingCall("trn_2:2", OUTER.call, 2, 5)
    await calls_of(door, other).call(1, "patch", PATCH)
    assert [call.key for call in door.calls] == ["trn_1:2.1", "trn_2:2.1"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("memory", "{}", "cannot call 'memory'. It can call: terminal, patch."),
        ("execute_code", "{}", "cannot call"),
        ("read_file", "{}", "cannot call"),
        ("terminal", '{"command": "a", "background": true}', "cannot use background"),
        ("terminal", '{"command": "a", "pty": true}', "cannot use pty"),
    ],
)
async def test_what_is_not_for_programs(name: str, arguments: str, said: str) -> None:
    door = Door(State(), _works)
    result = await calls_of(door).call(1, name, arguments)
    assert result.is_error
    assert said in result.text
    assert not door.calls


async def test_a_program_is_told_of_the_tools_that_its_turn_has() -> None:
    functions = calls_of(Door(State(), _works)).functions()
    assert list(functions) == ["terminal", "patch"]
    assert functions["terminal"] == ["command", "timeout", "workdir"]
