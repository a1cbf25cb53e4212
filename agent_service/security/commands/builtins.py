"""Follows text that a command gives to a shell, and the effects of builtins on later text."""

import re
from collections.abc import Callable, Mapping, Sequence

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.marks import DECODED, REMOTE, UNKNOWN, is_known, without_marks
from agent_service.security.commands.outputs import output_of
from agent_service.security.commands.paths import HOME
from agent_service.security.commands.scene import NO_PIPES, Pipes, Scene
from agent_service.security.commands.shell import Shell, declare

SOURCED = ("/dev/stdin", "-", "/dev/fd/0", "/proc/self/fd/0")
"""Files that stand for standard input."""


def run_text(shell: Shell, text: str, pipes: Pipes) -> str:
    """Follow text that is given to a shell."""
    judge_origin(shell.scene, text)
    if is_known(text):
        return shell.script(text, pipes)
    # Unknown parts may be empty, or be arguments of a program in the text.
    known = without_marks(text)
    if not known.strip():
        return UNKNOWN
    shell.script(known, pipes)
    return try_text(shell, text, pipes) or UNKNOWN


def try_text(shell: Shell, text: str, pipes: Pipes = NO_PIPES) -> str:
    """Follow text that may be a command; ignore it if it is none."""
    broken = shell.scene.is_broken
    printed = shell.script(text, pipes)
    shell.scene.is_broken = broken
    return printed


def judge_origin(scene: Scene, text: str) -> None:
    """Note that executed text comes from the network or was encoded."""
    if REMOTE in text:
        scene.find("reverse-shell" if scene.has_socket else "remote-to-shell")
    if DECODED in text or text.strip() in scene.decoded:
        scene.find("decode-to-shell")


def quoted(args: Sequence[str]) -> str:
    """The words quoted as shell text."""
    return " ".join("'" + arg.replace("'", "'\\''") + "'" for arg in args)


def run_stdin(shell: Shell, pipes: Pipes) -> str:
    """Follow what a shell reads from standard input."""
    if not pipes.stdin:
        if shell.scene.has_socket and not pipes.is_fed:
            shell.scene.find("reverse-shell")
        return ""
    return run_text(shell, pipes.stdin, Pipes())


def run_shell(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    """Follow a shell's text, file or input."""
    args, reads, scripted = list(invocation.args), False, False
    while args:
        arg = args[0]
        if arg in ("-o", "+o", "-O", "+O"):
            args = args[2:]
        elif len(arg) > 1 and arg[0] in "-+":
            scripted = scripted or (arg[1] != "-" and "c" in arg)
            reads = reads or (arg[1] != "-" and "s" in arg)
            args = args[1:]
        else:
            break
    if scripted and args:
        return run_with_arguments(shell, args[0], args[1:], pipes)
    if args and not reads and args[0] not in SOURCED:
        text = shell.scene.read(args[0])
        return run_with_arguments(shell, text, args, pipes) if text else UNKNOWN
    return run_stdin(shell, pipes)


def run_with_arguments(shell: Shell, text: str, given: Sequence[str], pipes: Pipes) -> str:
    """Follow text with its name and arguments."""
    variables = shell.words.variables
    saved = dict(variables)
    variables.update({str(number): arg for number, arg in enumerate(given)})
    variables.update({"@": " ".join(given[1:]), "*": " ".join(given[1:])})
    try:
        return run_text(shell, text, pipes)
    finally:
        variables.clear()
        variables.update(saved)


# Builtins, and programs that create files


def _cd(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    target = invocation.operand(0) or HOME
    scene = shell.scene
    if not is_known(target) or target == "-":
        scene.cwd = ""
    elif target.startswith("/"):
        scene.cwd = target
    elif scene.cwd:
        scene.cwd = f"{scene.cwd}/{target}"
    return ""


def _eval(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    return run_text(shell, invocation.text, pipes)


def _source(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    target = invocation.operand(0)
    text = pipes.stdin if target in SOURCED else shell.scene.read(target)
    return run_text(shell, text or UNKNOWN, pipes) if target else ""


def _set(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    args = list(invocation.args)
    if not args:
        return UNKNOWN  # every variable
    is_told = "--" in args
    args = args[args.index("--") + 1 :] if is_told else args
    if args and (is_told or not args[0].startswith(("-", "+"))):
        variables = shell.words.variables
        variables.update({str(number): arg for number, arg in enumerate(args, 1)})
        variables.update({"@": " ".join(args), "*": " ".join(args)})
    return ""


def _export(shell: Shell, invocation: Invocation, pipes: Pipes) -> None:
    for field in invocation.operands:
        declare(shell.scene, shell.words, field)


def _read(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    is_array = invocation.name != "read"
    valued = "-d -n -O -s -u -C -c" if is_array else "-d -n -N -p -t -u -i"
    names = invocation.without_options(valued.split()) or ["MAPFILE" if is_array else "REPLY"]
    is_remote = shell.scene.has_socket and bool(invocation.value_of("-u"))
    words = pipes.stdin.split() or [REMOTE if is_remote else UNKNOWN]
    for number, name in enumerate(names):
        last = number == len(names) - 1
        value = " ".join(words[number:]) if last else "".join(words[number : number + 1])
        shell.words.variables[name] = value or UNKNOWN
    return ""


def _printf(shell: Shell, invocation: Invocation, pipes: Pipes) -> str | None:
    if invocation.args[:1] == ("-v",) and len(invocation.args) > 2:
        shell.words.variables[invocation.args[1]] = output_of(invocation, shell.scene)
        return ""
    return None


def _alias(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    for arg in invocation.args:
        name, equals, value = arg.partition("=")
        if equals:
            shell.scene.aliases[name] = value
            run_text(shell, value, Pipes())
    return "" if "=" in invocation.text else UNKNOWN


def _trap(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    if len(invocation.operands) > 1:
        run_text(shell, invocation.operands[0], pipes)
        return ""
    return UNKNOWN


def _copy(shell: Shell, invocation: Invocation, pipes: Pipes) -> str | None:
    operands = invocation.operands
    if len(operands) == 2:
        source, target = operands
        text = shell.scene.read(source)
        if not text and re.match(r"/(?:usr/)?s?bin/", source):
            text = f'{source} "$@"'
        if text:
            shell.scene.write(target, text)
            shell.scene.aliases.setdefault(target, f"sh {target}")
    return None


def _fetch(shell: Shell, invocation: Invocation, pipes: Pipes) -> str | None:
    named = ("-o", "--output") if invocation.name == "curl" else ("-o", "-O", "--output-document")
    targets = invocation.value_of(*named)
    if invocation.name in ("wget", "aria2c", "axel") or invocation.short("OJ"):
        urls = [arg for arg in invocation.operands if "://" in arg or "/" in arg]
        targets = targets or [url.split("?")[0].rpartition("/")[2] for url in urls]
    for target in targets:
        if target not in ("-", "/dev/null", "/dev/stdout", ""):
            shell.scene.write(target, REMOTE)
    return None


def _tee(shell: Shell, invocation: Invocation, pipes: Pipes) -> str | None:
    for operand in invocation.operands:
        shell.write(operand, pipes.stdin)
    return None


def _schedule(shell: Shell, invocation: Invocation, pipes: Pipes) -> str | None:
    text = pipes.stdin or "".join(shell.scene.read(operand) for operand in invocation.operands)
    for line in text.splitlines():
        try_text(shell, re.sub(r"^\s*(?:@\w+|[\d*/,-]+\s+(?:\S+\s+){4})", "", line))
    return None


BUILTINS: Mapping[str, Callable[[Shell, Invocation, Pipes], str | None]] = {
    "eval": _eval,
    "set": _set,
    "printf": _printf,
    "alias": _alias,
    "trap": _trap,
    **dict.fromkeys(["cd", "pushd"], _cd),
    **dict.fromkeys(["source", "."], _source),
    **dict.fromkeys(["declare", "export", "readonly", "typeset"], _export),
    **dict.fromkeys(["read", "mapfile", "readarray"], _read),
    **dict.fromkeys(["cp", "ln", "mv", "install"], _copy),
    **dict.fromkeys(["curl", "wget", "aria2c", "axel"], _fetch),
    **dict.fromkeys(["tee", "sponge"], _tee),
    **dict.fromkeys(["crontab", "at", "batch"], _schedule),
}
"""The effects of builtins; None means that it prints like any program."""
