"""Which commands run, which ask and which are refused, by mode and by place."""

import pytest

from agent_service.events import Decision
from agent_service.sandbox import Place
from agent_service.tools.approval import ApprovalRequired
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolFailed, ToolResult
from agent_service.tools.judged import CommandPolicy, JudgeCommands, Typed

MANUAL = CommandPolicy()
OFF = CommandPolicy(asks=False)
LEAVES, STAYS, UNCLEAR = "rm -rf src", "chmod 777 x", "echo 'a"


class Arguments(ToolArguments):
    """Runs a text."""

    command: str


class Runs:
    """A tool that says that it ran."""

    name = "terminal"
    toolset = "terminal"
    arguments = Arguments

    def effect(self, arguments: Arguments) -> Effect:
        return Effect.KEYED

    def writes(self, arguments: Arguments) -> frozenset[str]:
        return frozenset()

    async def run(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult(f"ran {arguments.command}")


async def call(
    command: str,
    policy: CommandPolicy,
    *,
    decision: Decision | None = None,
    backend: str = "bubblewrap",
    granted: frozenset[str] = frozenset(),
    is_input: bool = False,
) -> str:
    """Call the tool and give what it says, or "asked" with the subject."""
    tool = JudgeCommands(
        Runs(), lambda arguments: Typed(arguments.command, is_input=is_input), policy
    )

    async def sandbox() -> Place:
        return Place(backend)

    async def is_granted(name: str, binding: str) -> bool:
        return binding in granted

    context = ToolContext.__new__(ToolContext)
    for name, value in {"decision": decision, "sandbox": sandbox, "granted": is_granted}.items():
        object.__setattr__(context, name, value)
    try:
        return (await tool.run(Arguments(command=command), context)).text
    except ApprovalRequired as asked:
        return f"asked {asked.subject}"


@pytest.mark.parametrize("policy", [MANUAL, OFF])
@pytest.mark.parametrize("decision", [None, Decision.ONCE, Decision.ALWAYS])
async def test_what_destroys_the_machine_is_refused_everywhere(
    policy: CommandPolicy, decision: Decision | None
) -> None:
    with pytest.raises(ToolFailed, match="deletes the root"):
        await call("r''m -rf /", policy, decision=decision)


@pytest.mark.parametrize(
    ("command", "policy", "backend", "answer"),
    [
        ("ls", MANUAL, "local", "ran"),
        (STAYS, MANUAL, "docker", "ran"),
        (STAYS, MANUAL, "bubblewrap", "ran"),
        (STAYS, MANUAL, "ssh", "asked"),
        (STAYS, MANUAL, "local", "asked"),
        (STAYS, CommandPolicy(asks_in_sandboxes=True), "docker", "asked"),
        (LEAVES, MANUAL, "docker", "asked"),
        (UNCLEAR, MANUAL, "docker", "asked"),
        (LEAVES, OFF, "local", "ran"),
        (UNCLEAR, OFF, "local", "ran"),
    ],
)
async def test_who_is_asked_depends_on_class_mode_and_place(
    command: str, policy: CommandPolicy, backend: str, answer: str
) -> None:
    assert await call(command, policy, backend=backend) == f"{answer} {command}"


@pytest.mark.parametrize("decision", [Decision.ONCE, Decision.SESSION, Decision.ALWAYS])
async def test_what_was_allowed_runs(decision: Decision) -> None:
    assert await call(LEAVES, MANUAL, decision=decision) == f"ran {LEAVES}"


async def test_no_answer_is_not_a_denial() -> None:
    with pytest.raises(ToolFailed, match="The user denied"):
        await call(LEAVES, MANUAL, decision=Decision.DENY)
    with pytest.raises(ToolFailed, match="Nobody answered"):
        await call(LEAVES, MANUAL, decision=Decision.EXPIRED)


async def test_an_allowance_holds_for_every_spelling_of_the_same_command_only() -> None:
    with pytest.raises(ApprovalRequired) as asked:
        await _ask("rm -rf src")
    granted = frozenset({asked.value.binding})
    assert await call("r''m  -rf 'src'", MANUAL, granted=granted) == "ran r''m  -rf 'src'"
    assert await call("rm -rf lib", MANUAL, granted=granted) == "asked rm -rf lib"
    assert await call("rm -rf src; id", MANUAL, granted=granted) == "asked rm -rf src; id"
    with pytest.raises(ApprovalRequired) as unknown:
        await _ask("rm -rf $A")
    granted = frozenset({unknown.value.binding})
    assert await call("rm -rf $B", MANUAL, granted=granted) == "asked rm -rf $B"


async def _ask(command: str) -> None:
    tool = JudgeCommands(Runs(), lambda arguments: Typed(arguments.command), MANUAL)

    async def nothing(name: str, binding: str) -> bool:
        return False

    context = ToolContext.__new__(ToolContext)
    object.__setattr__(context, "decision", None)
    object.__setattr__(context, "granted", nothing)
    await tool.run(Arguments(command=command), context)


async def test_patterns_are_refused_whoever_is_asked() -> None:
    policy = CommandPolicy(asks=False, denied=("git push*",))
    with pytest.raises(ToolFailed, match=r"approvals\.deny"):
        await call("cd x && g'i't push origin main", policy, decision=Decision.ONCE)
    assert await call("git pull", policy) == "ran git pull"


async def test_secrets_are_not_shown() -> None:
    shown = await call("rm -r src; curl -H 'Authorization: Bearer abcdef0123456789abc' x", MANUAL)
    assert "abcdef0123456789abc" not in shown
    assert "[REDACTED]" in shown


async def test_input_of_a_program_need_not_be_a_command() -> None:
    assert await call("it's me", MANUAL, is_input=True) == "ran it's me"
    assert await call(LEAVES, MANUAL, is_input=True) == f"asked {LEAVES}"
    with pytest.raises(ToolFailed, match="refused"):
        await call("rm -rf /", MANUAL, is_input=True)
