"""Failures are caught narrowly, tasks have owners, and nothing waits for the garbage collector."""

import ast
import re
from collections.abc import Iterator

from services import errors
from tests.architecture.source import (
    Function,
    Module,
    assert_clean,
    assert_refuses,
    dotted,
    product,
    sample,
    suite,
    within,
)

PROPER_NAMES = r"Hermes|PostgreSQL|Telegram|Discord|Slack"
CHAT_COMMANDS = "gateway_service.commands"
MESSAGES = {"complain", *(name for name in vars(errors) if re.match(r"[A-Z][a-z]", name))}
LIFECYCLE = "services/lifecycle.py"
BOUNDARIES = (
    "services/rpc/interceptors.py",
    LIFECYCLE,
    "agent_service/tools/toolbox.py",
    "gateway_service/accounts/runner.py",
)
"""Where any exception may be caught: around an RPC, a worker, a tool's call, a platform's loop."""

BROAD = {"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"}
LOGS = {"exception", "error", "warning", "critical"}


def broad(kind: ast.expr | None) -> bool:
    """Whether an `except` clause names everything there is."""
    if isinstance(kind, ast.Tuple):
        return any(broad(one) for one in kind.elts)
    return kind is None or dotted(kind) in BROAD


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends by raising again, or by handing the exception itself to somebody."""
    match handler.body[-1]:
        case ast.Raise(exc=None):
            return True
        case ast.Assign(targets=[ast.Attribute()], value=given) | ast.Return(value=given):
            handed = given.elts if isinstance(given, ast.Tuple) else [given]
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="set_exception"), args=handed)):
            pass
        case _:
            return False
    return any(isinstance(node, ast.Name) and node.id == handler.name for node in handed)


def logged(handler: ast.ExceptHandler) -> bool:
    calls = (node.func for node in ast.walk(handler) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in LOGS for call in calls)


def broad_excepts(module: Module) -> Iterator[str]:
    for node in module.find(ast.ExceptHandler):
        if broad(node.type) and not passes_on(node):
            if module.path not in BOUNDARIES:
                yield module.at(node, "catches everything")
            elif not logged(node):
                yield module.at(node, "catches everything without logging it")
    for node in module.find(ast.Call):
        if dotted(node.func).endswith("suppress") and any(broad(kind) for kind in node.args):
            yield module.at(node, "suppresses everything")


def unowned_tasks(module: Module) -> Iterator[str]:
    """A task belongs to a group, to the lifecycle's workers, or to the function that awaits it."""
    if module.path == LIFECYCLE:
        return
    groups = set(task_groups(module))
    for node in module.find(ast.Call):
        owner, _, name = dotted(node.func).rpartition(".")
        made = name == "ensure_future" or (name == "create_task" and owner not in groups)
        if made and not awaited_here(module, node):
            yield module.at(node, f"nobody owns the task of {dotted(node.func)}")


def awaited_here(module: Module, call: ast.Call) -> bool:
    """Whether the function that makes a task gives it a name and awaits what has that name."""
    around = list(module.around(call))
    function = next((node for node in around if isinstance(node, Function)), None)
    assignment = next((node for node in around if isinstance(node, ast.Assign)), None)
    if function is None or assignment is None:
        return False
    awaits = (node for node in ast.walk(function) if isinstance(node, ast.Await))
    awaited = {name.id for node in awaits for name in ast.walk(node) if isinstance(name, ast.Name)}
    return any(
        isinstance(target, ast.Name) and target.id in awaited for target in assignment.targets
    )


def task_groups(module: Module) -> Iterator[str]:
    """Yield what is bound to a TaskGroup, by `async with` or by its annotation."""
    for block in module.find(ast.AsyncWith):
        for item in block.items:
            made = isinstance(item.context_expr, ast.Call) and item.context_expr.func
            if made and item.optional_vars and dotted(made).endswith("TaskGroup"):
                yield dotted(item.optional_vars)
    for node in module.find(ast.arg):
        if node.annotation and dotted(node.annotation).endswith("TaskGroup"):
            yield node.arg
    for node in module.find(ast.AnnAssign):
        if dotted(node.annotation).endswith("TaskGroup"):
            yield dotted(node.target)
            yield f"self.{dotted(node.target)}"


def finalizers(module: Module) -> Iterator[str]:
    for node in module.functions():
        if node.name == "__del__":
            yield module.at(node, "__del__ runs whenever it likes")


def odd_messages(module: Module) -> Iterator[str]:
    """Find messages that do not look alike after "hermes: "; answers in chats are sentences."""
    if within(module.name, CHAT_COMMANDS):
        return
    for node in module.find(ast.Call):
        if not node.args or dotted(node.func) not in MESSAGES:
            continue
        given = node.args[0]
        parts = given.values if isinstance(given, ast.JoinedStr) else [given]
        first, last = (str(getattr(part, "value", "")) for part in (parts[0], parts[-1]))
        if re.match(rf"(?!{PROPER_NAMES})[A-Z][a-z]", first):
            yield module.at(node, f"{first[:30]!r} begins with a capital")
        if re.search(r"(^|[a-z)])\.$", last):
            yield module.at(node, f"{last[-30:]!r} ends with a period")


def test_messages_of_errors_look_alike() -> None:
    assert_clean(odd_messages, product())
    assert_refuses(odd_messages, sample("raise NotFound('There is no job')"))


def test_failures_are_caught_narrowly() -> None:
    assert_clean(broad_excepts, product())
    assert_refuses(broad_excepts, sample("try: f()\nexcept: pass"))


def test_tasks_have_owners() -> None:
    assert_clean(unowned_tasks, product())
    assert_refuses(unowned_tasks, sample("async def f():\n    asyncio.create_task(g())"))


def test_nothing_waits_for_the_garbage_collector() -> None:
    assert_clean(finalizers, (*product(), *suite()))
    assert_refuses(finalizers, sample("class A:\n    def __del__(self): ..."))
