"""Interpreters, and how they are given program text."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import is_known
from agent_service.security.commands.powershell import texts_of

SHELLS = listed(
    "sh bash dash ash zsh ksh ksh93 mksh pdksh rbash rzsh fish csh tcsh posh yash sash oksh "
    "elvish xonsh hush osh bash5 bsh"
)
"""Shells whose text is read as bash's."""

_COMPILED = listed(
    "java javac kotlin scalac cc gcc clang g++ c++ clang++ tcc rustc cargo csc mcs csx "
    "zig nim v dart tsx ts-node fpc gfortran dmd ldc2 swiftc"
)
"""Compilers and their like, which are given files."""

POWERSHELLS = ("pwsh", "powershell")
"""Shells whose text is not bash's."""

CODE_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "python": ("-c",),
        "pypy": ("-c",),
        "ipython": ("-c",),
        "perl": ("-e", "-E"),
        "ruby": ("-e",),
        "jruby": ("-e",),
        "node": ("-e", "--eval", "-p", "--print", "-pe"),
        "nodejs": ("-e", "--eval", "-p", "--print", "-pe"),
        "bun": ("-e", "--eval"),
        "deno": ("eval",),
        "php": ("-r", "-B", "-R", "-E"),
        "lua": ("-e",),
        "luajit": ("-e",),
        "julia": ("-e", "-E", "--eval"),
        "Rscript": ("-e",),
        "R": ("-e",),
        "osascript": ("-e",),
        "groovy": ("-e",),
        "groovysh": ("-e",),
        "scala": ("-e",),
        "elixir": ("-e", "--eval"),
        "erl": ("-eval",),
        "octave": ("--eval",),
        "octave-cli": ("--eval",),
        "guile": ("-c",),
        "racket": ("-e",),
        "sbcl": ("--eval",),
        "clojure": ("-e",),
        "clj": ("-e",),
        "emacs": ("--eval", "-eval"),
        "emacsclient": ("-e", "--eval"),
        "vim": ("-c", "--cmd"),
        "vi": ("-c", "--cmd"),
        "nvim": ("-c", "--cmd"),
        "ex": ("-c",),
        "rvim": ("-c", "--cmd"),
        "view": ("-c", "--cmd"),
        "rview": ("-c", "--cmd"),
        "vimdiff": ("-c", "--cmd"),
        "jrunscript": ("-e",),
        "jshell": ("-e",),
        "jjs": ("-e",),
        "ghc": ("-e",),
        "gdb": ("-ex", "--eval-command", "-iex"),
        "lldb": ("-o", "-O"),
        **dict.fromkeys(POWERSHELLS, ("-e", "-enc", "-EncodedCommand")),
        "cmd": ("/c", "/C", "/k"),
        "expect": ("-c",),
        "crystal": ("eval",),
        "swift": ("-e",),
        "awk": ("-e", "--source"),
        "tclsh": (),
        "wish": (),
        "ghci": (),
        "irb": ("-e",),
        "dotnet": ("-e",),
        "gimp": ("-b", "--batch"),
        "cpan": (),
        "pip": (),
        "pip3": (),
        "easy_install": (),
        "m4": (),
        "runghc": (),
        "go": (),
        "irssi": (),
        "bpftrace": ("-e",),
        "nasm": (),
        **dict.fromkeys(("ocaml", "csi", "kotlinc"), ("-e",)),
        **dict.fromkeys(_COMPILED, ()),
        "bee": ("eval",),
        "latex": (),
        "pdflatex": (),
        "sqlmap": ("--eval",),
        "rpm": ("--eval", "-E"),
        "rpmquery": ("--eval", "-E"),
        "rake": ("-e", "-p"),
        "nmap": (),
        "weechat": ("-r",),
    }
)
"""Interpreters, and the options whose value is program text."""

AWKS = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk", "goawk"})
_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|php|lua|luajit|node|nodejs|guile|tclsh|ipython)-?[\d.]+(?:-\w+)?m?"
)


def language_of(name: str) -> str:
    """The interpreter's plain name; empty where the program is none."""
    if name in AWKS:
        return "awk"
    if (match := _VERSIONED.fullmatch(name)) is not None:
        name = match[1]
    return name if name in CODE_OPTIONS else ""


def code_of(invocation: Invocation, files: Mapping[str, str]) -> list[str]:
    """The program texts that an interpreter is given."""
    language = language_of(invocation.name)
    options = CODE_OPTIONS[language]
    found = invocation.value_of(*options) + _clustered(invocation, options)
    if language in POWERSHELLS:
        found += texts_of(invocation.args)
    found += [arg[1:] for arg in invocation.args if arg.startswith("+") and language in _EDITORS]
    if language == "awk":
        found += invocation.without_options(("-v", "-F", "-f", "--file", "-i", "-l"))[:1]
    if language in ("latex", "pdflatex", "php"):
        found += [arg for arg in invocation.args if "\\" in arg or "<?" in arg]
    if found:
        return found
    operands = invocation.operands
    found = [
        files[named]
        for named in (arg.rpartition("=")[2] for arg in invocation.args)
        if named in files
    ]
    # What is being written has no text yet.
    found += [files.get(path, "") for path in files if _may_be_read(path, invocation)]
    found = list(dict.fromkeys(filter(None, found)))
    if not found and (not operands or {"-", "/dev/stdin"} & set(operands)) and invocation.stdin:
        found = [invocation.stdin]
    return found


def _may_be_read(path: str, invocation: Invocation) -> bool:
    """Whether a file is in a folder that the program is given, or one of a name not known."""
    named = (arg.rpartition("=")[2] for arg in invocation.args)
    return any(
        not is_known(arg) or arg == "." or (bool(arg) and path.startswith(f"{arg.rstrip('/')}/"))
        for arg in named
    )


_EDITORS = frozenset({"vim", "vi", "nvim", "view", "rvim", "rview", "vimdiff", "emacs"})


def _clustered(invocation: Invocation, options: tuple[str, ...]) -> list[str]:
    letters = "".join(option[1] for option in options if len(option) == 2)
    if not letters:
        return []
    shape = re.compile(rf"-[A-Za-z0-9]+[{re.escape(letters)}]")
    return [
        invocation.args[number + 1]
        for number, arg in enumerate(invocation.args[:-1])
        if shape.fullmatch(arg) and arg not in options and is_known(arg)
    ]
