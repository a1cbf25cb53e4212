"""Well-known programs that run another program, and where it stands in their arguments.

Other programs need no entry: their words are followed in any case.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import is_known


class Wrapper(Struct, frozen=True):
    """How to find the inner command."""

    programs: str
    valued: str = ""
    """Options that take the next argument."""
    skipped: int = 0
    """Operands before the inner command."""
    settings: bool = False
    """Whether NAME=value may precede it."""
    scripts: str = ""
    """Options whose value is shell text."""
    as_text: bool = False
    """Whether the inner words are joined and parsed as shell text."""


_SUDO = (
    "-u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T "
    "--command-timeout -U --other-user -D --chdir -R --chroot -a"
)
_ITEMS = (
    "-I -n -P -L -d -a -s -E -i --replace --max-args --max-procs --delimiter --arg-file "
    "--max-lines --max-chars --eof --process-slot-var"
)
_TABLE = (
    Wrapper("command builtin nohup setsid busybox coproc not", "-"),
    Wrapper("sudo sudo-rs doas", _SUDO, settings=True),
    Wrapper("env", "-u --unset -C --chdir -P", scripts="-S --split-string", settings=True),
    Wrapper("nice ionice", "-n --adjustment -c --class --classdata"),
    Wrapper("timeout gtimeout", "-s --signal -k --kill-after", skipped=1),
    Wrapper("time gtime", "-f -o --format --output"),
    Wrapper("exec", "-a"),
    Wrapper("xargs gxargs", _ITEMS),
    Wrapper("parallel", "-j -n -N -I -a -L -S --jobs --colsep --arg-file -d", as_text=True),
    Wrapper("watch", "-n --interval -q --equexit", as_text=True),
    Wrapper("su runuser", "-u -g -G -w -s", scripts="-c --command --session-command"),
)
WRAPPERS: Mapping[str, Wrapper] = {
    program: wrapper for wrapper in _TABLE for program in wrapper.programs.split()
}

_CONTAINERS = listed("docker podman nerdctl kubectl oc docker-compose podman-compose")
_CONTAINER = Wrapper(
    "docker",
    "-e -u -w --env --user --workdir -n --namespace -c --container --context --detach-keys "
    "--env-file",
)


def is_wrapper(call: Invocation) -> bool:
    """Whether it runs another program from its arguments."""
    if call.name == "command" and call.args[:1] in (("-v",), ("-V",)):
        return False
    return call.name in WRAPPERS or (call.name in _CONTAINERS and call.has("exec", "run"))


class Inner(Struct, frozen=True):
    """What a wrapper runs: words, shell texts, or nothing."""

    argv: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


_SETS = re.compile(r"(?<!\S)(?:-[eE] ?|--(?:set)?env[ =])(\w+)[ =](\S*)")


def unwrap(call: Invocation) -> Inner:
    """What a wrapper runs, with the variables that it sets."""
    inner = _executed(call) if call.name in _CONTAINERS else _wrapped(call, WRAPPERS[call.name])
    settings = (*_SETS.findall(call.text), *inner.settings)
    return Inner(inner.argv, inner.scripts, settings)


def _wrapped(call: Invocation, wrapper: Wrapper) -> Inner:
    args = list(call.args)
    scripts = tuple(call.value_of(*wrapper.scripts.split())) if wrapper.scripts else ()
    rest = _behind_options(args, wrapper)
    settings: list[tuple[str, str]] = []
    while wrapper.settings and rest and _sets(rest):
        name, _, value = rest.pop(0).partition("=")
        settings.append((name, value))
    rest = rest[wrapper.skipped :]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if call.name == "env" and scripts:
        return Inner(scripts=(" ".join((*scripts, *rest)),))
    if scripts:
        return Inner(scripts=scripts, settings=tuple(settings))
    if wrapper.as_text or (len(rest) == 1 and " " in rest[0]):
        return Inner(scripts=(" ".join(rest),), settings=tuple(settings))
    return Inner(tuple(rest), settings=tuple(settings))


def _sets(words: list[str]) -> bool:
    """Whether the first word sets a variable, or may expand to settings: `env $(cat .env) ls`."""
    if is_known(words[0]):
        return "=" in words[0] and not words[0].startswith(("/", "="))
    return "=" in words[0] or re.match(r"\w", "".join(words[1:2])) is not None


def _behind_options(args: list[str], wrapper: Wrapper) -> list[str]:
    takes, at = [*wrapper.valued.split(), *wrapper.scripts.split()], 0
    while at < len(args):
        arg = args[at]
        if arg == "--":
            return args[at + 1 :]
        if not arg.startswith("-") and not (arg.startswith("+") and len(arg) > 1):
            break
        # Of combined short options the last may take the next argument.
        is_valued = arg in takes or (len(arg) > 2 and arg[1:].isalpha() and f"-{arg[-1]}" in takes)
        at += 2 if is_valued else 1
    return args[at:]


def _executed(call: Invocation) -> Inner:
    args = list(call.args)
    verb = next(arg for arg in args if arg in ("exec", "run"))
    args = args[args.index(verb) + 1 :]
    if "--" in args:
        return Inner(tuple(args[args.index("--") + 1 :]))
    if verb == "run":
        return Inner() if call.name in ("kubectl", "oc") else Inner(_started(args))
    return Inner(tuple(_behind_options(args, _CONTAINER)[1:]))


# Containers

_RUN_SWITCHES = re.compile(
    r"-[itdPqTa]+|--(?:rm|interactive|tty|detach|privileged|init|publish-all|read-only|quiet|no-TTY"
    r"|no-healthcheck|oom-kill-disable|disable-content-trust|sig-proxy|no-deps|service-ports"
    r"|build|use-aliases|replace|tls-verify|no-hosts|env-host|stdin|attach|quiet-pull)|--[\w-]+=.*"
    r"|-[a-zA-Z]\S*[^a-zA-Z\s]\S*"
)
"""Options of `run` without a value."""


def image_at(args: Sequence[str]) -> int:
    """The index of the image among the arguments after `run`."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        at += 1 if _RUN_SWITCHES.fullmatch(args[at]) else 2
    return at


def _started(args: Sequence[str]) -> tuple[str, ...]:
    """The command of a container."""
    at = image_at(args)
    entry = Invocation("run", tuple(args[:at])).value_of("--entrypoint")
    return (*entry, *args[at + 1 :])
