"""Texts that a command gives to a shell."""

from collections.abc import Sequence

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.marks import DECODED, REMOTE, UNKNOWN, is_known, without_marks
from agent_service.security.commands.scene import NO_PIPES, Pipes, Scene
from agent_service.security.commands.shell import Shell

SOURCED = ("/dev/stdin", "-", "/dev/fd/0", "/proc/self/fd/0")
"""Files that are the input."""


def run_text(shell: Shell, text: str, pipes: Pipes) -> str:
    """Follow text that is given to a shell."""
    judge_origin(shell.scene, text)
    if is_known(text):
        return shell.script(text, pipes)
    # What is not told may be nothing, and may be what a program of the text is told.
    known = without_marks(text)
    if not known.strip():
        return UNKNOWN
    shell.script(known, pipes)
    return try_text(shell, text, pipes) or UNKNOWN


def try_text(shell: Shell, text: str, pipes: Pipes = NO_PIPES) -> str:
    """Follow text that may be a command; that it is none says nothing."""
    broken = shell.scene.is_broken
    printed = shell.script(text, pipes)
    shell.scene.is_broken = broken
    return printed


def judge_origin(scene: Scene, text: str) -> None:
    """Note that text which is run comes from the network or was encoded."""
    if REMOTE in text:
        scene.find("reverse-shell" if scene.has_socket else "remote-to-shell")
    if DECODED in text or text.strip() in scene.decoded:
        scene.find("decode-to-shell")


def quoted(args: Sequence[str]) -> str:
    """The words as shell text that means just them."""
    return " ".join("'" + arg.replace("'", "'\\''") + "'" for arg in args)


def run_stdin(shell: Shell, pipes: Pipes) -> str:
    """Follow what a shell reads from its input."""
    if not pipes.stdin:
        if shell.scene.has_socket and not pipes.is_fed:
            shell.scene.find("reverse-shell")
        return ""
    return run_text(shell, pipes.stdin, Pipes())


def run_shell(shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
    """Follow what a shell is given: a text, a file or its input."""
    args, reads, scripted = list(invocation.args), False, False
    while args:
        arg = args[0]
        if arg in ("--rcfile", "--init-file") and len(args) > 1:
            run_text(shell, shell.scene.read(args[1]), Pipes())
            args = args[2:]
        elif arg in ("-o", "+o", "-O", "+O"):
            args = args[2:]
        elif arg == "--":
            args = args[1:]
            break
        elif len(arg) > 1 and arg[0] in "-+":
            scripted = scripted or (arg[1] != "-" and "c" in arg) or arg == "--command"
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
    """Follow text with its name and its arguments."""
    variables = shell.words.variables
    saved = dict(variables)
    variables.update({str(number): arg for number, arg in enumerate(given)})
    variables.update({"@": " ".join(given[1:]), "*": " ".join(given[1:])})
    try:
        return run_text(shell, text, pipes)
    finally:
        variables.clear()
        variables.update(saved)
