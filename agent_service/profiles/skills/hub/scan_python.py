"""Judges a skill's Python programs by their syntax: what they run, and where that comes from."""

import ast
import shlex
import warnings
from collections.abc import Iterator

from agent_service.profiles.skills.hub.scan_shell import of_script
from agent_service.profiles.skills.hub.verdicts import Finding, Verdict, excerpt
from agent_service.security.commands.classifier import CommandClassifier

_DECODES = frozenset(
    {
        *("b64decode", "b32decode", "b16decode", "b85decode", "a85decode", "urlsafe_b64decode"),
        *("unhexlify", "fromhex", "decompress", "loads", "rot13", "translate"),
    }
)
_FETCHES = frozenset({"urlopen", "urlretrieve", "get", "post", "request", "recv", "getresponse"})
_RUNS_CODE = frozenset({"exec", "eval", "compile", "__import__", "execfile"})
_LOADS_CODE = frozenset({"marshal.loads", "pickle.loads", "pickle.load", "dill.loads"})
_RUNS_SHELL = frozenset(
    {
        *("os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.Popen"),
        *("subprocess.check_call", "subprocess.check_output", "subprocess.getoutput"),
        *("subprocess.getstatusoutput", "asyncio.create_subprocess_shell", "pty.spawn"),
        *("commands.getoutput", "asyncio.create_subprocess_exec"),
    }
)
_NETWORK = ("requests", "urllib", "urllib3", "http", "httpx", "aiohttp", "socket")


def of_program(
    classifier: CommandClassifier, path: str, text: str, *, first: int = 1, is_whole: bool = True
) -> Iterator[Finding]:
    """Yield findings of a program; `first` is the line where it begins in its file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        yield from _Program(classifier, path, text, tree, first).findings()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if is_whole:
            yield Finding(Verdict.CAUTION, "unreadable", path, first)


class _Program:
    def __init__(
        self, classifier: CommandClassifier, path: str, text: str, tree: ast.Module, first: int
    ) -> None:
        self._classifier = classifier
        self._path = path
        self._lines = text.split("\n")
        self._first = first
        self._tree = tree
        self._names = _imported(tree)
        self._calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._tainted = self._assigned()

    def findings(self) -> Iterator[Finding]:
        called = {self._called(call) for call in self._calls}
        for call in self._calls:
            name = self._called(call)
            if name in _RUNS_CODE or name.removeprefix("builtins.") in _RUNS_CODE:
                yield from self._code(call)
            elif name in _LOADS_CODE:
                yield self._found(Verdict.CAUTION, "dynamic-code", call)
            elif name in _RUNS_SHELL:
                yield from self._shell(call)
            elif name == "os.dup2" and any(each.startswith("socket.") for each in called):
                yield self._found(Verdict.DANGEROUS, "reverse-shell", call)

    def _code(self, call: ast.Call) -> Iterator[Finding]:
        given = call.args[0] if call.args else None
        if given is None or isinstance(given, ast.Constant):
            return
        family = self._origin(given)
        if family:
            yield self._found(Verdict.DANGEROUS, family, call)
        else:
            yield self._found(Verdict.CAUTION, "dynamic-code", call)

    def _shell(self, call: ast.Call) -> Iterator[Finding]:
        given = call.args[0] if call.args else None
        if given is None:
            return
        if family := self._origin(given):
            yield self._found(Verdict.DANGEROUS, family, call)
            return
        listed = " ".join(shlex.quote(part) for part in _literals(call.args))
        command = given.value if isinstance(given, ast.Constant) else listed
        if not isinstance(command, str) or not command:
            return
        for found in of_script(self._classifier, self._path, command, is_whole=False):
            yield self._found(found.verdict, found.family, call)

    def _origin(self, node: ast.expr) -> str:
        """Return the family of running this expression; empty if it is ordinary text."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id in self._tainted:
                return self._tainted[inner.id]
            if isinstance(inner, ast.Call) and (family := self._family(inner)):
                return family
        return ""

    def _family(self, call: ast.Call) -> str:
        name = self._called(call)
        last = name.rpartition(".")[2]
        if name in _LOADS_CODE or (last in _DECODES and not name.startswith(("json.", "yaml."))):
            return "decode-to-shell"
        is_network = name.partition(".")[0] in _NETWORK or last in ("urlopen", "recv")
        return "remote-to-shell" if is_network and last in _FETCHES else ""

    def _assigned(self) -> dict[str, str]:
        """Return names that hold decoded or fetched data, directly or through other names."""
        self._tainted: dict[str, str] = {}
        pairs = [pair for node in ast.walk(self._tree) for pair in _assignments(node)]
        for _ in range(3):
            for name, value in pairs:
                if name not in self._tainted and (family := self._origin(value)):
                    self._tainted[name] = family
        return self._tainted

    def _called(self, call: ast.Call) -> str:
        dotted = _dotted(call.func)
        head, dot, rest = dotted.partition(".")
        return self._names.get(head, head) + dot + rest

    def _found(self, verdict: Verdict, family: str, node: ast.expr) -> Finding:
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        return Finding(verdict, family, self._path, self._first + node.lineno - 1, excerpt(line))


def _imported(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({each.asname: each.name for each in node.names if each.asname})
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    return found


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value
        case _:
            return


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{_dotted(value)}.{attr}"
        case ast.Call(func=func):
            return _dotted(func)
        case _:
            return ""


def _literals(arguments: list[ast.expr]) -> Iterator[str]:
    """Yield the words of a command; unknown words become placeholders."""
    for argument in arguments:
        parts = argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
        for part in parts:
            known = part.value if isinstance(part, ast.Constant) else None
            yield known if isinstance(known, str) else "it"
