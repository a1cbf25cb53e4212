"""Programs that run another one from an option or from their input items."""

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import UNKNOWN
from agent_service.security.commands.scene import Scene

_LONGEST = 65_536
_LISTERS = listed("find ls fd locate git")
Started = list[str | list[str]]
"""Shell texts and argument lists to run."""


FED_BY_FILES = listed(
    "make gmake psql mysql mariadb sqlite3 duckdb sqlcmd cqlsh clickhouse-client xargs gxargs"
)
"""Programs that obey files."""
_WORD = re.compile(r"[^\s;=]+")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def fed_by_files(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation with the files that it names and the command has written as its input."""
    named = [*_WORD.findall(invocation.text), *(_MAKEFILES if "make" in invocation.name else ())]
    texts = [text for path in dict.fromkeys(named) if (text := scene.read(path))]
    return replace(invocation, stdin="\n".join((invocation.stdin, *texts)))


def with_items(
    invocation: Invocation, argv: list[str], scripts: list[str]
) -> tuple[list[str], list[str]]:
    """What xargs or parallel runs with its items."""
    whole = invocation.short("0dI") or invocation.long("null", "delimiter", "replace")
    given = invocation.stdin.strip("\n\0")
    items = re.split(r"[\n\0]", given) if whole and given else given.split()
    items = items[:64] or [UNKNOWN]
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
    joined, left, found = " ".join(items), _LONGEST, list[str]()
    for arg in argv:
        count = min(arg.count(mark), max(1, left // (len(joined) + 1)))
        left = max(0, left - count * (len(joined) + 1))
        found += items if arg == mark and left else [arg.replace(mark, joined, count)]
    return found


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


def _matches(pattern: str) -> Callable[[Invocation], Started]:
    """Runs what follows a pattern in each argument and each line of the input."""
    matcher = re.compile(pattern, re.IGNORECASE)

    def run(invocation: Invocation) -> Started:
        lines = [*invocation.args, *invocation.stdin.splitlines()]
        return [match[1] for line in lines if (match := matcher.match(line))]

    return run


_BANG = _matches(r"\s*(?:\.shell\s+|\.system\s+|\\!\s*|:?!|shell\s+|system\s+)(.*)")
_EDITS = re.compile(r"(?:^|[\s\d;{}!$/,~+])s([ -/:-@\[\]-^`{-~])")
# Each part ends at the next mark, which keeps matching linear.
_EDITED_BY = re.compile(
    r"(?<!\\)([ -/:-@\[\]-^`{-~])(?=((?:\\[\s\S]|(?!\1)[^\\\n])*)\1\w{0,4}e\w{0,4}(?:[\s;}#]|$))"
)


def _sed_exec(invocation: Invocation) -> Started:
    found: Started = []
    for arg in invocation.args:
        if match := re.search(r"(?:^|[\d$;{/])e\s+(?:exec\s+)?(\S.*)", arg):
            found.append(match[1])
        edits = {match[1] for match in _EDITS.finditer(arg)}
        for match in _EDITED_BY.finditer(arg) if edits else ():
            if match[1] in edits:
                found.append(match[2].replace(f"\\{match[1]}", match[1]))
    return found


def _git_runs(invocation: Invocation) -> Started:
    args = list(invocation.args)
    found: Started = [
        " ".join(args[args.index(word) + 1 :])
        for word in ("foreach", "run", "--exec", "-x")
        if word in args
    ]
    found += [text for each in invocation.value_of("-c") if (text := each.partition("=!")[2])]
    if "config" in args:
        found += [arg[1:] for arg in args if arg.startswith("!")]
    filters = ("tree", "index", "env", "msg", "parent", "commit", "tag-name")
    return [*found, *invocation.value_of(*(f"--{each}-filter" for each in filters))]


def _recipes(invocation: Invocation) -> Started:
    texts = [*invocation.value_of("--eval"), invocation.stdin]
    lines = [line for text in texts for line in re.split(r"\n|;", text)]
    return [*texts[:-1], *(line.strip().lstrip("@-") for line in lines if line[:1].isspace())]


def _values(options: str) -> Callable[[Invocation], Started]:
    return lambda invocation: list(invocation.value_of(*options.split()))


_OPTIONS = {
    "zip": "-TT --unzip-command",
    "rsync": "-e --rsh",
    "split": "--filter",
    "man": "-P --pager",
    "openvpn": "--up --down",
    "tcpdump": "-z",
    "dmsetup": "--exec",
    "nc": "-c --sh-exec",
    "ncat": "-c --sh-exec",
    "npm": "-c --call",
    "logrotate": "-m",
}
_RUN_BY: Mapping[str, Callable[[Invocation], Started]] = {
    "find gfind fd fdfind": _found_exec,
    "ssh sshpass": _matches(r"(?:-o\s*)?(?:Proxy|Local)Command[= ](.*)"),
    "git": _git_runs,
    "sed": _sed_exec,
    "tar bsdtar": lambda invocation: [
        *_matches(r"(?:--checkpoint-action=)?exec=(.*)")(invocation),
        *invocation.value_of("--to-command", "--use-compress-program", "-I"),
    ],
    "ftp sqlite3 psql mysql lftp ed ex less dc": _BANG,
    "socat": _matches(r"(?:exec|system):['\"]?([^'\",]*)"),
    "make gmake": _recipes,
}
RUNNERS: Mapping[str, Callable[[Invocation], Started]] = {
    **{name: _values(options) for name, options in _OPTIONS.items()},
    **{name: run for names, run in _RUN_BY.items() for name in names.split()},
}
