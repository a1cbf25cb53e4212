"""Judges a skill's code: shell text by the commands in it, Python by its syntax."""

import ast
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator

from agent_service.profiles.skills.hub.verdicts import Finding, Verdict, excerpt
from agent_service.security.commands.classifier import LONGEST, CommandClassifier
from agent_service.security.commands.families import FAMILIES, CommandClass

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


MAX_LINES = 2_000
_DANGEROUS = frozenset({"reverse-shell", "bind-shell", "decode-to-shell", "hidden-command"})
_EVERYDAY = frozenset({"recursive-delete", "workspace-delete", "overwrite"})
"""Ordinary in build scripts; the person who runs one is asked if it matters."""
_LEADS_OUT = frozenset({"credential-files", "upload"})
WORST = frozenset(
    {*_DANGEROUS, "remote-to-shell", "credential-files"}
    | {name for name, family in FAMILIES.items() if family.hardline}
)
"""Reported even in a single line whose context is not understood."""
_PROMPT = re.compile(r"^\s*(?:\$|#|>|%|[\w.-]+@[\w.-]+[:~\w/ .-]*[$#])\s+(?=\S)")


def of_script(
    classifier: CommandClassifier, path: str, text: str, *, first: int = 1, is_whole: bool = True
) -> Iterator[Finding]:
    """Yield findings of a script; `first` is the line where it begins in its file."""
    for begin, part in _parts(text, first):
        verdict = classifier.classify(part)
        if is_whole and verdict.kind is CommandClass.UNPARSEABLE:
            yield Finding(Verdict.CAUTION, "unreadable", path, begin)
        if not verdict.families:
            continue
        if set(verdict.families) >= _LEADS_OUT:
            yield from _located(classifier, path, part, begin, _LEADS_OUT)
        for family in _worth_telling(verdict.families):
            line, shown = _line_of(classifier, part, begin, frozenset({family}))
            yield Finding(severity(family), family, path, line, shown)


def of_mention(
    classifier: CommandClassifier, path: str, line: int, command: str
) -> Iterator[Finding]:
    """Yield findings of a command in a sentence, which may well warn against it."""
    for family in _worth_telling(classifier.classify(command.rstrip(" .,;:!?)")).families):
        yield Finding(Verdict.CAUTION, family, path, line, excerpt(command))


def severity(family: str) -> Verdict:
    """Return the severity of a command family in a skill."""
    is_dangerous = FAMILIES[family].hardline or family in _DANGEROUS
    return Verdict.DANGEROUS if is_dangerous else Verdict.CAUTION


def without_prompts(text: str) -> str:
    """Return the commands of a shell transcript, each on its line."""
    lines = text.split("\n")
    if not any(_PROMPT.match(line) for line in lines):
        return text
    return "\n".join(_PROMPT.sub("", line) if _PROMPT.match(line) else "" for line in lines)


def _worth_telling(families: Iterable[str]) -> list[str]:
    return [family for family in families if family not in _EVERYDAY]


def _located(
    classifier: CommandClassifier, path: str, text: str, begin: int, families: frozenset[str]
) -> Iterator[Finding]:
    """Yield a finding if one statement both reads secrets and sends data."""
    line, shown = _line_of(classifier, text, begin, families)
    if shown:
        yield Finding(Verdict.DANGEROUS, "exfiltration", path, line, shown)


def _line_of(
    classifier: CommandClassifier, text: str, begin: int, families: frozenset[str]
) -> tuple[int, str]:
    """Return the first line that shows the families by itself; else the beginning, without text."""
    for number, line in _logical(text):
        if families <= set(classifier.classify(line).families):
            return begin + number, excerpt(line)
    return begin, ""


def _logical(text: str) -> Iterator[tuple[int, str]]:
    held, at = "", 0
    for number, line in enumerate(text.split("\n")[:MAX_LINES]):
        at = at if held else number
        held += line
        if held.endswith("\\"):
            held = held[:-1]
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            yield at, held
        held = ""
    if held.strip():
        yield at, held


def _parts(text: str, first: int) -> Iterator[tuple[int, str]]:
    begin, held, size = first, list[str](), 0
    for number, line in enumerate(text.split("\n"), first):
        if held and size + len(line) > LONGEST - 1024:
            yield begin, "\n".join(held)
            begin, held, size = number, [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield begin, "\n".join(held)
