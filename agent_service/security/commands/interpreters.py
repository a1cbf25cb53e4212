"""Interpreters, and how they receive program text."""

import re
from collections.abc import Mapping, Sequence

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import is_known
from agent_service.security.commands.scene import Scene

SHELLS = listed(
    "sh bash dash ash zsh ksh ksh93 mksh pdksh rbash rzsh fish csh tcsh posh yash sash oksh "
    "elvish xonsh hush osh bash5 bsh"
)
"""Shells that are parsed like bash."""
POWERSHELLS = ("pwsh", "powershell")
"""Shells with another syntax."""

_OPTIONS = {
    "python pypy ipython guile expect": "-c",
    "ruby jruby lua luajit Rscript R osascript groovy groovysh scala racket clojure clj jrunscript "
    "jshell jjs ghc swift irb dotnet bpftrace ocaml csi kotlinc": "-e",
    "perl": "-e -E",
    "node nodejs": "-e --eval -p --print -pe",
    "bun elixir emacsclient": "-e --eval",
    "deno crystal bee": "eval",
    "php": "-r -B -R -E",
    "julia": "-e -E --eval",
    "erl emacs": "-eval --eval",
    "octave octave-cli sbcl sqlmap": "--eval",
    "vim vi nvim ex rvim view rview vimdiff": "-c --cmd",
    "gdb": "-ex --eval-command -iex",
    "lldb": "-o -O",
    "pwsh powershell": "-e -enc -EncodedCommand",
    "cmd": "/c /C /k",
    "awk": "-e --source",
    "gimp": "-b --batch",
    "rpm rpmquery": "--eval -E",
    "rake": "-e -p",
    "weechat": "-r",
    # Given files, or standard input.
    "tclsh wish ghci cpan pip pip3 easy_install m4 runghc go irssi nasm latex pdflatex nmap java "
    "javac kotlin scalac cc gcc clang g++ c++ clang++ tcc rustc cargo csc mcs csx zig nim v dart "
    "tsx ts-node fpc gfortran dmd ldc2 swiftc": "",
}
CODE_OPTIONS: Mapping[str, tuple[str, ...]] = {
    name: tuple(options.split()) for names, options in _OPTIONS.items() for name in names.split()
}
"""Interpreters, with the options whose value is program text."""
_AWKS = listed("awk gawk mawk nawk original-awk goawk")
_EDITORS = listed("vim vi nvim view rvim rview vimdiff emacs")
_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|php|lua|luajit|node|nodejs|guile|tclsh|ipython)-?[\d.]+(?:-\w+)?m?"
)


def language_of(name: str) -> str:
    """The interpreter's plain name; empty if it is none."""
    if name in _AWKS:
        return "awk"
    if (match := _VERSIONED.fullmatch(name)) is not None:
        name = match[1]
    return name if name in CODE_OPTIONS else ""


def code_of(call: Invocation, scene: Scene) -> list[str]:
    """The program texts that an interpreter is given."""
    language = language_of(call.name)
    options = CODE_OPTIONS[language]
    found = call.value_of(*options) + _clustered(call.args, options)
    if language in POWERSHELLS:
        found += _commands_of(call.args)
    elif language in _EDITORS:
        found += [arg[1:] for arg in call.args if arg.startswith("+")]
    elif language == "awk":
        found += call.without_options(("-v", "-F", "-f", "--file", "-i", "-l"))[:1]
    if found:
        return found
    named = [arg.rpartition("=")[2] for arg in call.args]
    found = [scene.read(path) for path in named if path]
    found += [text for path, text in scene.files.items() if _may_be_read(path, named)]
    is_typed = not call.operands or bool({"-", "/dev/stdin"} & set(call.operands))
    return list(dict.fromkeys(filter(None, found))) or (
        [call.stdin] if is_typed and call.stdin else []
    )


def _may_be_read(path: str, named: Sequence[str]) -> bool:
    """Whether a file is in a named folder, or may be as far as known."""
    return any(
        not is_known(arg) or arg == "." or (bool(arg) and path.startswith(f"{arg.rstrip('/')}/"))
        for arg in named
    )


def _clustered(args: Sequence[str], options: Sequence[str]) -> list[str]:
    letters = "".join(option[1] for option in options if len(option) == 2)
    if not letters:
        return []
    shape = re.compile(rf"-[A-Za-z0-9]+[{re.escape(letters)}]")
    return [
        args[number + 1]
        for number, arg in enumerate(args[:-1])
        if shape.fullmatch(arg) and arg not in options and is_known(arg)
    ]


def _commands_of(args: Sequence[str]) -> list[str]:
    for number, arg in enumerate(args):
        option = arg.lower()
        if option[:1] in "-/" and len(option) > 1 and "command".startswith(option[1:]):
            return [" ".join(args[number + 1 :])]
    return [arg for arg in args if " " in arg]
