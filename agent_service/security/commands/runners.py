"""Programs that run another one by an option or by an item of a list."""

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import UNKNOWN, without_marks
from agent_service.security.commands.scene import Scene

_LONGEST = 65_536
Started = list[str | list[str]]
"""What is run: shell texts and lists of words."""


def fed_by_file(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation with the items of the file that it names as its input."""
    given = "".join(scene.read(path) for path in invocation.value_of("-a", "--arg-file"))
    if not given:
        return invocation
    return Invocation(invocation.name, invocation.args, given, invocation.cwd)


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
    # Of several marks, programs take the last.
    marks = [*invocation.value_of("-I", "--replace", "-i")[-1:], "{}"]
    if scripts:
        text = scripts[0]
        return [], [text.replace("{}", joined) if "{}" in text else f"{text} {joined}"]
    if not argv:
        return [], []
    if argv[0] in ("rm", "unlink", "shred") and invocation.feeds & {
        "find",
        "ls",
        "fd",
        "locate",
        "git",
    }:
        argv.insert(1, "-r")
    if any(mark and mark in arg for mark in marks for arg in argv):
        for mark in filter(None, marks):
            argv = _filled(argv, mark, items)
        return argv, []
    return [*argv, *items], []


def _filled(argv: list[str], mark: str, items: list[str]) -> list[str]:
    """The words with the items in place of the mark, as far as they are no more than we look at."""
    joined, left, found = " ".join(items), _LONGEST, list[str]()
    for arg in argv:
        count = min(arg.count(mark), max(1, left // (len(joined) + 1)))
        left = max(0, left - count * (len(joined) + 1))
        found += items if arg == mark and left else [arg.replace(mark, joined, count)]
    return found


_EXECS = listed("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_ENDS = (";", "+", "\\;")


SQL_CLIENTS = listed("psql mysql mariadb sqlite3 duckdb sqlcmd cqlsh clickhouse-client")
_READS = re.compile(r"(?:\.read|\\ir?|\bsource|\\\.)\s+([^\s;]+)")


def fed_by_script(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation of a database's client with the files that the command has written for it."""
    named = invocation.value_of("-f", "--file", "-init", "--queries-file", "-i")
    named += _READS.findall(f"{invocation.text}\n{invocation.stdin}")
    texts = [text for path in named if (text := scene.read(path))]
    return replace(invocation, stdin="\n".join([invocation.stdin, *texts])) if texts else invocation


_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def fed_by_makefile(invocation: Invocation, scene: Scene) -> Invocation:
    """The invocation of make with the recipes that the command has written as its input."""
    named = invocation.value_of("-f", "--file", "--makefile") or _MAKEFILES
    return replace(invocation, stdin="".join(map(scene.read, named)) or invocation.stdin)


def _found_exec(invocation: Invocation) -> Started:
    found: Started = []
    args = list(invocation.args)
    roots = [arg for arg in args[:8] if not arg.startswith(("-", "(", "!"))][:1] or ["."]
    name = roots[0] if "-name" not in args and "-iname" not in args else f"{roots[0]}/{UNKNOWN}"
    end = 0
    for number, arg in enumerate(args):
        # What it runs may run something itself, and is followed on its own.
        if number < end or arg not in _EXECS:
            continue
        end = next((n for n in range(number, len(args)) if args[n] in _ENDS), len(args))
        found.append(_filled(args[number + 1 : end], "{}", [name]))
    return found


def _fd_exec(invocation: Invocation) -> Started:
    args = list(invocation.args)
    at = next((n for n, arg in enumerate(args) if arg in _EXECS), len(args))
    told = replace(invocation, args=tuple(args[:at]))
    roots = told.without_options(
        ("-e", "-t", "-E", "-d", "-S", "-c", "-j", "--extension", "--type")
    )
    pattern, folders = roots[:1], roots[1:] or told.value_of("--search-path", "--base-directory")
    is_all = pattern in ([], ["."], [""], [".*"])
    root = (folders or ["."])[0]
    name = root if is_all else f"{root}/{UNKNOWN}"
    return (
        [_filled(args[at + 1 :], "{}", [name])]
        if "{}" in args[at:]
        else [[*args[at + 1 :], name]]
        if args[at + 1 :]
        else []
    )


def _ssh_command(invocation: Invocation) -> Started:
    valued = [
        "-b",
        "-c",
        "-D",
        "-E",
        "-e",
        "-F",
        "-I",
        "-i",
        "-J",
        "-L",
        "-l",
        "-m",
        "-O",
        "-o",
        "-p",
        "-Q",
        "-R",
        "-S",
        "-W",
        "-w",
    ]
    args, found = list(invocation.args), Started()
    for value in invocation.value_of("-o"):
        if re.match(r"(?:Proxy|Local)Command[= ]", value, re.IGNORECASE):
            found.append(re.split(r"[= ]", value, maxsplit=1)[1])
    if invocation.name == "sshpass":
        args = args[args.index("ssh") + 1 :] if "ssh" in args else []
    while args and args[0].startswith("-"):
        args = args[2 if args[0] in valued else 1 :]
    # Options may also stand behind the host, and end there.
    rest = args[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in valued else 1 :]
    found.append(" ".join(rest))
    if len(args) < 2 and invocation.stdin:
        found.append(without_marks(invocation.stdin))
    return found


def _valued(*options: str) -> Callable[[Invocation], Started]:
    return lambda invocation: list(invocation.value_of(*options))


def _action(invocation: Invocation) -> Started:
    found = [
        match[1]
        for arg in invocation.args
        if (match := re.search(r"(?:--checkpoint-action=|^)exec=(.*)", arg))
    ]
    return [*found, *invocation.value_of("--to-command", "--use-compress-program", "-I")]


def _bang(invocation: Invocation) -> Started:
    lines = [*invocation.args, *invocation.stdin.splitlines()]
    found = [
        re.match(r"\s*(?:\.shell\s+|\.system\s+|\\!\s*|:?!|shell\s+|system\s+)(.*)", line)
        for line in lines
    ]
    return [match[1] for match in found if match]


_EDITS = re.compile(r"(?:^|[\s\d;{}!$/,~+])s([ -/:-@\[\]-^`{-~])")
# Each part ends at the next mark, so that this takes no longer where there are many of them.
_EDITED_BY = re.compile(
    r"(?<!\\)([ -/:-@\[\]-^`{-~])(?=((?:\\[\s\S]|(?!\1)[^\\\n])*+)\1\w{0,4}e\w{0,4}(?:[\s;}#]|$))"
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


_GIT_FILTERS = (
    "--tree-filter",
    "--index-filter",
    "--env-filter",
    "--msg-filter",
    "--parent-filter",
    "--commit-filter",
    "--tag-name-filter",
)


def _submodule(invocation: Invocation) -> Started:
    args = list(invocation.args)
    found: Started = []
    for word in ("foreach", "run", "--exec", "-x"):
        if word in args:
            found.append(" ".join(args[args.index(word) + 1 :]))
    for value in invocation.value_of("-c"):
        _, bang, text = value.partition("=!")
        if bang:
            found.append(text)
    if "config" in args:
        found += [arg[1:] for arg in args if arg.startswith("!")]
    return [*found, *invocation.value_of(*_GIT_FILTERS)]


def _recipes(invocation: Invocation) -> Started:
    texts = [*invocation.value_of("--eval"), invocation.stdin]
    lines = [line for text in texts for line in re.split(r"\n|;", text)]
    return [*texts[:-1], *(line.strip().lstrip("@-") for line in lines if line[:1].isspace())]


def _behind(invocation: Invocation, word: str) -> list[str]:
    args = list(invocation.args)
    return args[args.index(word) + 1 :] if word in args else []


def _last_word(invocation: Invocation) -> Started:
    return list(invocation.operands[-1:])


def _macros(invocation: Invocation) -> Started:
    lines = [
        line.partition("%(")[2].rpartition(")")[0]
        for text in invocation.value_of("--eval", "-E")
        for line in text.splitlines()
    ]
    return [line for line in lines if line]


RUNNERS: Mapping[str, Callable[[Invocation], Started]] = {
    "find": _found_exec,
    "gfind": _found_exec,
    "fd": _fd_exec,
    "fdfind": _fd_exec,
    "ssh": _ssh_command,
    "sshpass": _ssh_command,
    "mosh": _ssh_command,
    "git": _submodule,
    "sed": _sed_exec,
    "tar": _action,
    "bsdtar": _action,
    "zip": _valued("-TT", "--unzip-command"),
    "rsync": _valued("-e", "--rsh"),
    "split": _valued("--filter"),
    "man": _valued("-P", "--pager"),
    "ftp": _bang,
    "sqlite3": _bang,
    "psql": _bang,
    "mysql": _bang,
    "lftp": _bang,
    "ed": _bang,
    "less": _bang,
    "ansible": _valued("-a", "--args"),
    "pdsh": lambda invocation: [" ".join(invocation.without_options(("-w", "-R", "-l")))],
    **dict.fromkeys(("pssh", "parallel-ssh", "clush", "dsh", "salt"), _last_word),
    "rpm": _macros,
    "rpmquery": _macros,
    "dc": _bang,
    "ex": _bang,
    "openvpn": _valued("--up", "--down"),
    "tcpdump": _valued("-z"),
    "dmsetup": _valued("--exec"),
    "run-parts": lambda invocation: [],
    "socat": lambda invocation: [
        match[1]
        for arg in invocation.args
        if (match := re.match(r"(?:exec|system):['\"]?([^'\",]*)", arg, re.IGNORECASE))
    ],
    "gdb": lambda invocation: [_behind(invocation, "--args")],
    "nc": _valued("-c", "--sh-exec"),
    "ncat": _valued("-c", "--sh-exec"),
    "iptables": lambda invocation: [],
    "npm": _valued("-c", "--call"),
    "make": _recipes,
    "gmake": _recipes,
    "capsh": _valued("-c"),
    "wg-quick": lambda invocation: [],
    "logrotate": _valued("-m"),
}
"""What they run, by program."""
