"""The conditions of a rule, and the engine that checks them for a call."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from msgspec import Struct

from agent_service.security.commands import paths
from agent_service.security.commands.families import Reach
from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import UNKNOWN
from agent_service.security.commands.network_clients import is_local
from agent_service.security.commands.paths import PathClass, place


class Rule(Struct, frozen=True):
    """A family and its conditions; a call belongs to it if all of them hold."""

    family: str
    programs: str
    """Names of programs, separated by spaces; `*` is every program."""
    text: str = ""
    """A pattern that the arguments contain."""
    unless: str = ""
    """A pattern that the arguments do not contain."""
    verb: str = ""
    """A pattern that the arguments without options start with."""
    valued: str = ""
    """Options whose values `verb` skips."""
    options: str = ""
    """Options, short letters or long names, of which one is given."""
    operands: str = ""
    """One of `KINDS` that an operand must be; `last`, `first` or options before it select which."""
    is_fed: bool = False
    """Whether it has piped or redirected input."""
    feeds: str = ""
    """A pattern for an earlier program or redirection in the pipeline."""
    around: str = ""
    """A pattern for an earlier or later program or redirection in the pipeline."""
    reads_stdin: bool = False
    """Whether its input counts as arguments too."""
    when: Callable[[Invocation], bool] | None = None
    """A condition that no pattern can express."""
    reach: Reach | None = None
    """Overrides the family's reach."""


def by_program(rules: Iterable[Rule]) -> Mapping[str, tuple[Rule, ...]]:
    """The rules by program."""
    found: defaultdict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        for program in rule.programs.split():
            found[program].append(rule)
    return {program: tuple(rules) for program, rules in found.items()}


def holds(rule: Rule, call: Invocation) -> bool:
    """Whether a call meets all conditions of the rule."""
    text = f"{call.text}\n{call.stdin}" if rule.reads_stdin else call.text
    return (
        (not rule.text or _pattern(rule.text).search(text) is not None)
        and (not rule.options or _has_option(rule.options, call))
        and (not rule.verb or _begins(rule, call))
        and (not rule.unless or _pattern(rule.unless).search(text) is None)
        and (not rule.operands or _is_among(rule.operands, call))
        and (not rule.is_fed or call.is_fed)
        and (not rule.feeds or any(map(_pattern(rule.feeds).search, call.feeds)))
        and (not rule.around or any(map(_pattern(rule.around).search, call.feeds | call.fed)))
        and (rule.when is None or rule.when(call))
        and not _asks_only(rule, call)
    )


_FIRM = listed(
    "delete-root kill-all device-write reverse-shell bind-shell remote-access upload download "
    "hidden-command privilege-flags credential-files own-config"
)
"""Families for which `--help` must come first, since it may belong to another program."""
_ASKS = ("--help", "--version", "-h", "-V", "-v", "help", "-?")


def _asks_only(rule: Rule, call: Invocation) -> bool:
    """Whether it only shows help, its version or a dry run."""
    if rule.family in _FIRM:
        return call.args[:1] in (("--help",), ("--version",))
    return (len(call.args) == 1 and call.args[0] in _ASKS) or call.long(
        "help", "version", "dry-run", "usage", "simulate", "no-act"
    )


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


@cache
def _option_names(options: str) -> tuple[str, tuple[str, ...]]:
    names = options.split()
    letters = "".join(name for name in names if len(name) == 1)
    return letters, tuple(name for name in names if len(name) > 1)


def _has_option(options: str, call: Invocation) -> bool:
    letters, names = _option_names(options)
    return call.short(letters) or (bool(names) and call.long(*names))


def _begins(rule: Rule, call: Invocation) -> bool:
    words = " ".join(call.without_options(rule.valued.split()))
    return _pattern(rule.verb).match(words) is not None


def _is_among(operands: str, call: Invocation) -> bool:
    *where, kind = operands.split()
    return any(KINDS[kind](path, call.cwd) for path in _looked_at(where, call) if path)


def _looked_at(where: list[str], call: Invocation) -> Iterable[str]:
    if not where:
        return call.operands
    if where == ["last"]:
        return call.operands[1:][-1:]
    if where == ["first"]:
        return call.operands[:-1]
    if where == ["named"]:
        return path_arguments(call)
    return call.value_of(*where)


def path_arguments(call: Invocation) -> Iterator[str]:
    """The arguments that may be paths, including those in `name=path` and `@path`."""
    for arg in call.args:
        yield arg
        if "=" in arg or "@" in arg:
            yield from re.split(r"[=@]", arg)
        if arg.startswith("-") and len(arg) > 3 and arg[1] != "-":
            yield arg[2:]


_EVERY_FILE = re.compile(r"(?:\.{1,2}/)*(?:\*|\*\*|\*\.\*|\.\*)")
_NOT_SYSTEM = (".sh", ".service")
_OF_USERS = ("/usr/local", "~", "/home", "/Users")


def _is_every_file(path: str, cwd: str) -> bool:
    """Whether it matches every file of a workspace folder, if not its subfolders."""
    begin = path.rstrip("*.")
    return bool(_EVERY_FILE.fullmatch(path)) and place(f"{begin}x", cwd) is PathClass.WORKSPACE


def _is_covered(path: str, cwd: str) -> bool:
    is_mount = re.match(r"/(?:mnt|media|proc|sys|dev|run)\b", path)
    return paths.is_critical(path, cwd) and not is_mount


def _is_system(path: str, cwd: str) -> bool:
    family = paths.written_family(path, cwd)
    return (
        family in ("system-config", "credential-files", "persistence")
        and not path.endswith(_NOT_SYSTEM)
        and not path.startswith(_OF_USERS)
    )


KINDS: Mapping[str, Callable[[str, str], bool]] = {
    "any": lambda path, _: True,
    "critical": paths.is_critical,
    "whole": lambda path, cwd: path.endswith("*") and paths.is_critical(path, cwd),
    "covered": _is_covered,
    "every-file": _is_every_file,
    "machine": lambda path, cwd: (
        place(path, cwd) in (PathClass.ROOT, PathClass.SYSTEM, PathClass.HOME)
    ),
    "system": _is_system,
    "guarded": lambda path, cwd: (
        bool(paths.written_family(path, cwd))
        or paths.is_trace(path, cwd)
        or path.endswith("/docker.sock")
    ),
    "kept": paths.is_kept,
    "null": lambda path, _: path == "/dev/null",
    "device": lambda path, _: paths.is_device(path),
    "device-or-untold": lambda path, _: paths.is_device(path) or path.startswith(UNKNOWN),
    "outside": paths.is_outside,
    "elsewhere": lambda host, _: not is_local(host) and not host.startswith("/"),
}
