"""Programs that run another program, and where it stands in their arguments."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise

from msgspec import Struct

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.marks import is_known


class Wrapper(Struct, frozen=True):
    """How to find the inner command."""

    programs: str
    valued: str = ""
    """Options that take the next argument; if empty, any option may."""
    settings: bool = False
    """Whether NAME=value may precede the inner command."""
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
_PLAIN = (
    "command builtin exec nohup setsid unbuffer valgrind fakechroot firejail torify tsocks entr "
    "busybox toybox catchsegv winpty eatmydata linux32 linux64 arch coproc not bunx pnpx "
    "flatpak-spawn dbus-launch ld.so ld-linux.so.2 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1"
)
_CONTAINERS = "docker podman nerdctl kubectl oc docker-compose podman-compose"
_LOOSE = (
    "proot fakeroot torsocks proxychains proxychains4 tini dumb-init rlwrap xvfb-run ltrace chpst "
    "dbus-run-session cgexec prlimit softlimit caffeinate ssh-agent daemonize openvt uvx numactl "
    "pkexec setpriv systemd-inhibit systemd-run strace unshare nsenter bwrap run0 nice ionice "
    "stdbuf time gtime gosu su-exec taskset setarch s6-setuidgid faketime logsave chrt timeout "
    "gtimeout perf chroot daemon start-stop-daemon ts dotenv op composer lxc incus distrobox wsl "
    "lxc-attach xdotool uv poetry pipenv git-bisect conda toolbox rustup bundle direnv "
    "screen tmux watch hyperfine ssh mosh sshpass pdsh pssh clush dsh salt ansible "
    "adb machinectl"
)
_NAMING = (
    "ssh mosh sshpass chroot gosu su-exec setarch s6-setuidgid faketime logsave flock sg lxc incus "
    f"distrobox toolbox rustup direnv ansible salt adb machinectl {_CONTAINERS}"
).split()
"""Wrappers whose first word names a host, container, user or file, whatever programs there are."""
_MOST_STARTS = 4
_TABLE = (
    Wrapper("sudo sudo-rs doas", _SUDO, settings=True),
    Wrapper("env", "-u --unset -C --chdir -P", scripts="-S --split-string", settings=True),
    Wrapper("xargs gxargs", _ITEMS),
    Wrapper("parallel", "-j -n -N -I -a -L -S --jobs --colsep --arg-file -d", as_text=True),
    Wrapper(_PLAIN, "-a --library-path --preload --audit --argv0 --package"),
    Wrapper(
        "su runuser script flock sg capsh npx", scripts="-c --command --session-command --call"
    ),
    Wrapper("nix-shell", scripts="--run --command"),
    Wrapper(f"{_LOOSE} {_CONTAINERS}"),
)
WRAPPERS: Mapping[str, Wrapper] = {
    program: wrapper for wrapper in _TABLE for program in wrapper.programs.split()
}


def is_wrapper(call: Invocation) -> bool:
    """Whether it runs another program from its arguments."""
    if call.name == "command" and call.args[:1] in (("-v",), ("-V",)):
        return False
    return call.name in WRAPPERS and (call.name not in _CONTAINERS.split() or _verb_at(call) > 0)


def _verb_at(call: Invocation) -> int:
    """The index after the verb of a container program that runs another; 0 if it has none."""
    return next((at for at, arg in enumerate(call.args, 1) if arg in ("exec", "run")), 0)


class Inner(Struct, frozen=True):
    """What a wrapper runs: words, shell texts, or nothing."""

    argvs: tuple[tuple[str, ...], ...] = ()
    """Several if it may be one or another."""
    scripts: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


_VERBS = ("shutdown", "reboot", "halt", "poweroff")
"""Programs whose names are also verbs of others."""
_OPERAND = re.compile(r"(?!-)[^\s/@:]*[a-zA-Z_][^\s/@:]*")
"""A word that is no option, number, path or host."""
_SETS = re.compile(r"(?<!\S)(?:-[eE] ?|--(?:set)?env[ =])(\w+)[ =](\S*)")


def unwrap(call: Invocation, knows: Callable[[str], bool]) -> Inner:
    """What a wrapper runs, with the variables that it sets; `knows` names programs."""
    wrapper = WRAPPERS[call.name]
    rest = _behind_options(call, wrapper)
    scripts = call.value_of(*wrapper.scripts.split()) if wrapper.scripts else []
    settings: list[tuple[str, str]] = _SETS.findall(call.text)
    while wrapper.settings and rest and _sets(rest):
        name, _, value = rest.pop(0).partition("=")
        settings.append((name, value))
    if call.name == "env" and scripts:
        scripts, rest = [" ".join((*scripts, *rest))], []
    elif scripts:
        rest = []
    elif not wrapper.valued:
        words = list(call.args[_verb_at(call) if call.name in _CONTAINERS.split() else 0 :])
        starts, end = _starts(words, knows, int(call.name in _NAMING))
        first = starts[0] if starts else end
        scripts = [
            word
            for at, (before, word) in enumerate(pairwise(["", *words[:end]]))
            if " " in word and (at < first or not before.startswith("-"))
        ]
        argvs = tuple(tuple(words[at:]) for at in starts)
        return Inner(argvs, tuple(scripts), tuple(settings))
    elif wrapper.as_text or (len(rest) == 1 and " " in rest[0]):
        scripts, rest = [" ".join(rest)], []
    return Inner((tuple(rest),) if rest else (), tuple(scripts), tuple(settings))


def _starts(words: list[str], knows: Callable[[str], bool], names: int) -> tuple[list[int], int]:
    """Where a program may begin, and where the words end that may be anything else."""
    found, named, operands, end = list[int](), 0, 0, len(words)
    for at, (before, word) in enumerate(pairwise(["", *words])):
        is_value = before.startswith("-") and before != "--"
        # Behind others, a verb may be theirs.
        is_verb = word in _VERBS and (is_value or operands > names)
        if knows(word) and not is_verb:
            found.append(at)
            if (not is_value and named >= names) or len(found) == _MOST_STARTS:
                end = at
                break
        if not is_value and not word.startswith("-"):
            named += 1
            operands += _OPERAND.fullmatch(word) is not None
    behind = words.index("--") + 1 if "--" in words else 0
    if found and found[-1] < behind < len(words):
        found.append(behind)
    return found, end


def _sets(words: list[str]) -> bool:
    """Whether the first word sets a variable, or may expand to settings: `env $(cat .env) ls`."""
    if is_known(words[0]):
        return "=" in words[0] and not words[0].startswith(("/", "="))
    return "=" in words[0] or re.match(r"\w", "".join(words[1:2])) is not None


def _behind_options(call: Invocation, wrapper: Wrapper) -> list[str]:
    args = list(call.args[_verb_at(call) if call.name in _CONTAINERS.split() else 0 :])
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
