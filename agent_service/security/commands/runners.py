"""Programs that run another one from an option or from their input items."""

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import UNKNOWN, without_marks
from agent_service.security.commands.scene import Scene

_LONGEST = 65_536
_LISTERS = listed("find ls fd locate git")
Started = list[str | list[str]]
"""Shell texts and argument lists to run."""


def fed_by_file(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation with the items of its input file as its input."""
    given = "".join(scene.read(path) for path in invocation.value_of("-a", "--arg-file"))
    return replace(invocation, stdin=given) if given else invocation


def with_items(
    invocation: Invocation, argv: list[str], scripts: list[str]
) -> tuple[list[str], list[str]]:
    """What xargs or parallel runs with its items."""
    whole = invocation.short("0dI") or invocation.long("null", "delimiter", "replace")
    given = invocation.stdin.strip("\n\0")
    items = re.split(r"[\n\0]", given) if whole and given else given.split()
    items = items[:64] or [UNKNOWN]
    for mark in (":::", "::::"):
        if mark in argv:
            at = argv.index(mark)
            argv, items = argv[:at], argv[at + 1 :]
    if scripts and ":::" in scripts[0]:
        text, _, given = scripts[0].partition(":::")
        scripts, items = [text], given.split()
    joined = " ".join(items)
    # The last mark given counts.
    marks = [*invocation.value_of("-I", "--replace", "-i")[-1:], "{}"]
    if scripts:
        text = scripts[0]
        return [], [text.replace("{}", joined) if "{}" in text else f"{text} {joined}"]
    if not argv:
        return [], []
    if argv[0] in ("rm", "unlink", "shred") and invocation.feeds & _LISTERS:
        argv.insert(1, "-r")
    if any(mark and mark in arg for mark in marks for arg in argv):
        for mark in filter(None, marks):
            argv = _filled(argv, mark, items)
        return argv, []
    return [*argv, *items], []


def _filled(argv: list[str], mark: str, items: list[str]) -> list[str]:
    """The words with the items in place of the mark, up to a limit."""
    joined, left, found = " ".join(items), _LONGEST, list[str]()
    for arg in argv:
        count = min(arg.count(mark), max(1, left // (len(joined) + 1)))
        left = max(0, left - count * (len(joined) + 1))
        found += items if arg == mark and left else [arg.replace(mark, joined, count)]
    return found


SQL_CLIENTS = listed("psql mysql mariadb sqlite3 duckdb sqlcmd cqlsh clickhouse-client")
_READS = re.compile(r"(?:\.read|\\ir?|\bsource|\\\.)\s+([^\s;]+)")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def fed_by_script(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation of a database client with its script files as input."""
    named = invocation.value_of("-f", "--file", "-init", "--queries-file", "-i")
    named += _READS.findall(f"{invocation.text}\n{invocation.stdin}")
    texts = [text for path in named if (text := scene.read(path))]
    return replace(invocation, stdin="\n".join([invocation.stdin, *texts])) if texts else invocation


def fed_by_makefile(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation of make with the Makefile that the command has written as input."""
    named = invocation.value_of("-f", "--file", "--makefile") or _MAKEFILES
    return replace(invocation, stdin="".join(map(scene.read, named)) or invocation.stdin)


_EXECS = listed("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_ENDS = (";", "+", "\\;")


def _found_exec(invocation: Invocation) -> Started:
    found: Started = []
    args = list(invocation.args)
    roots = [arg for arg in args[:8] if not arg.startswith(("-", "(", "!"))][:1] or ["."]
    name = roots[0] if "-name" not in args and "-iname" not in args else f"{roots[0]}/{UNKNOWN}"
    end = 0
    for number, arg in enumerate(args):
        # Arguments of an executed command are not find's own; it is followed separately.
        if number < end or arg not in _EXECS:
            continue
        end = next((n for n in range(number, len(args)) if args[n] in _ENDS), len(args))
        found.append(_filled(args[number + 1 : end], "{}", [name]))
    return found


_SSH_VALUED = listed("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w")


def _ssh_command(invocation: Invocation) -> Started:
    args, found = list(invocation.args), Started()
    for value in invocation.value_of("-o"):
        if re.match(r"(?:Proxy|Local)Command[= ]", value, re.IGNORECASE):
            found.append(re.split(r"[= ]", value, maxsplit=1)[1])
    # Options may also follow the host, and end there.
    host = list[str]()
    for _ in range(2):
        while args and args[0].startswith("-"):
            args = args[2 if args[0] in _SSH_VALUED else 1 :]
        host, args = (host, args) if host else (args[:1], args[1:])
    found.append(" ".join(args))
    if not args and invocation.stdin:
        found.append(without_marks(invocation.stdin))
    return found


_BANG = re.compile(r"\s*(?:\.shell\s|\.system\s|\\!|:?!|shell\s|system\s)(.*)", re.IGNORECASE)


def _bang(invocation: Invocation) -> Started:
    """What follows a mark in each argument and each line of the input."""
    lines = [*invocation.args, *invocation.stdin.splitlines()]
    return [match[1] for line in lines if (match := _BANG.match(line))]


def _recipes(invocation: Invocation) -> Started:
    texts = [*invocation.value_of("--eval"), invocation.stdin]
    lines = [line for text in texts for line in re.split(r"\n|;", text)]
    return [*texts[:-1], *(line.strip().lstrip("@-") for line in lines if line[:1].isspace())]


_RUN_BY: Mapping[str, Callable[[Invocation], Started]] = {
    "find gfind": _found_exec,
    "ssh": _ssh_command,
    "ftp sqlite3 psql mysql lftp ed ex less dc": _bang,
    "make gmake": _recipes,
}
RUNNERS: Mapping[str, Callable[[Invocation], Started]] = {
    name: run for names, run in _RUN_BY.items() for name in names.split()
}
