"""Programs that run another program, and where it stands in their arguments."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import is_known


class Wrapper(Struct, frozen=True):
    """How to find the inner command."""

    programs: str
    valued: str = ""
    """Options that take the next argument; if empty, any option may."""
    skipped: int = 0
    """Operands before the inner command."""
    settings: bool = False
    """Whether NAME=value may precede it."""
    scripts: str = ""
    """Options whose value is shell text."""
    as_text: bool = False
    """Whether the inner words are joined and parsed as shell text."""
    after: str = ""
    """A word that the inner command must follow."""

    @property
    def takes(self) -> list[str]:
        return [*self.valued.split(), *self.scripts.split()]


_SUDO = (
    "-u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T "
    "--command-timeout -U --other-user -D --chdir -R --chroot -a"
)
_ITEMS = (
    "-I -n -P -L -d -a -s -E -i --replace --max-args --max-procs --delimiter --arg-file "
    "--max-lines --max-chars --eof --process-slot-var"
)
_PLAIN = (
    "command builtin nohup setsid unbuffer valgrind fakechroot firejail torify tsocks entr busybox "
    "toybox catchsegv winpty eatmydata linux32 linux64 arch coproc not bunx pnpx flatpak-spawn "
    "dbus-launch ld.so ld-linux.so.2 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1"
)
_LOOSE = (
    "proot fakeroot torsocks proxychains proxychains4 tini dumb-init rlwrap xvfb-run ltrace chpst "
    "dbus-run-session cgexec prlimit softlimit caffeinate ssh-agent daemonize openvt uvx numactl "
    "pkexec setpriv systemd-inhibit systemd-run strace unshare nsenter bwrap run0 "
    "nice ionice stdbuf time gtime"
)
_AFTER_ONE = (
    "gosu su-exec taskset setarch s6-setuidgid faketime logsave chrt timeout gtimeout perf chroot"
)
_NEVER = "\0"
"""Never matches an argument."""
_TABLE = (
    Wrapper(_PLAIN, "--library-path --preload --audit --argv0 --package"),
    Wrapper(_LOOSE),
    Wrapper("sudo sudo-rs doas", _SUDO, settings=True),
    Wrapper(_AFTER_ONE, skipped=1),
    Wrapper("env", "-u --unset -C --chdir -P", scripts="-S --split-string", settings=True),
    Wrapper("capsh", scripts="-c"),
    Wrapper("exec", "-a"),
    Wrapper("xargs gxargs", _ITEMS),
    Wrapper("parallel", "-j -n -N -I -a -L -S --jobs --colsep --arg-file -d", as_text=True),
    Wrapper("watch", "-n --interval -q --equexit", as_text=True),
    Wrapper("script", "-I -O -B -o -m -E -T", scripts="-c --command", skipped=1),
    Wrapper("su", "-g -G -w -s", scripts="-c --command --session-command", after=_NEVER),
    Wrapper("runuser", "-u -g -G -w -s", scripts="-c --command --session-command"),
    Wrapper("sg", scripts="-c", skipped=1, as_text=True),
    Wrapper("newgrp crun", after=_NEVER),
    Wrapper("flock", "-w -E --timeout --conflict-exit-code", skipped=1, scripts="-c --command"),
    Wrapper("daemon", "-n -u -o -r", settings=True),
    Wrapper("hyperfine", "-w -r -m -M -p -c -n --warmup --runs", as_text=True),
    Wrapper("start-stop-daemon ts dotenv op composer lxc incus distrobox", after="--"),
    Wrapper("wsl", "-d -u -e", after="--"),
    Wrapper("lxc-attach", "-n --name -P -v", after="--"),
    Wrapper("xdotool", after="--sync"),
    Wrapper("uv", "--with --python -p --project --directory", after="run"),
    Wrapper("poetry pipenv git-bisect", after="run"),
    Wrapper("conda toolbox", "-n -p -c --name --prefix --container", after="run"),
    Wrapper("rustup", after="run", skipped=1),
    Wrapper("bundle", after="exec"),
    Wrapper("direnv", after="exec", skipped=1),
    Wrapper("nix-shell", "-p", scripts="--run --command", after=_NEVER),
    Wrapper("tmux", "-s -n -c -t -L -f -S -x -y -F", as_text=True),
    Wrapper("screen", "-S -c -t -T -h -s -X -p -L -Logfile"),
    Wrapper("npx", "-p --package", scripts="-c --call"),
    Wrapper("machinectl", "-M --uid -E --setenv", after="shell", skipped=1),
    Wrapper("adb", "-s -t -H -P", after="shell", as_text=True),
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
    is_loose: bool = False
    """Whether values of options may stand before the inner command."""


_SETS = re.compile(r"(?<!\S)(?:-[eE] ?|--(?:set)?env[ =])(\w+)[ =](\S*)")


def unwrap(call: Invocation) -> Inner:
    """What a wrapper runs, with the variables that it sets."""
    inner = _executed(call) if call.name in _CONTAINERS else _wrapped(call, WRAPPERS[call.name])
    settings = (*_SETS.findall(call.text), *inner.settings)
    return Inner(inner.argv, inner.scripts, settings, inner.is_loose)


def _wrapped(call: Invocation, wrapper: Wrapper) -> Inner:
    args = list(call.args)
    scripts = tuple(call.value_of(*wrapper.scripts.split())) if wrapper.scripts else ()
    if call.name == "tmux":
        return Inner(scripts=(*(arg for arg in args if " " in arg), _last_command(args, wrapper)))
    if wrapper.after:
        if wrapper.after not in args:
            return Inner(scripts=scripts)
        args = args[args.index(wrapper.after) + 1 :]
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
    is_loose = not wrapper.valued and (wrapper.skipped > 0 or len(rest) < len(args))
    return Inner(tuple(rest), settings=tuple(settings), is_loose=is_loose)


def _sets(words: list[str]) -> bool:
    """Whether the first word sets a variable, or may expand to settings: `env $(cat .env) ls`."""
    if is_known(words[0]):
        return "=" in words[0] and not words[0].startswith(("/", "="))
    return "=" in words[0] or re.match(r"\w", "".join(words[1:2])) is not None


def _behind_options(args: list[str], wrapper: Wrapper) -> list[str]:
    takes, at = wrapper.takes, 0
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


_TMUX_VERBS = listed("new-session new-window split-window splitw neww new run-shell run")


def _last_command(args: list[str], tmux: Wrapper) -> str:
    at = next((at for at, arg in enumerate(args, 1) if arg in _TMUX_VERBS), len(args))
    return " ".join(_behind_options(args[at:], tmux))


# Containers

_RUN_SWITCHES = re.compile(
    r"-[itdPqTa]+|--(?:rm|interactive|tty|detach|privileged|init|publish-all|read-only|quiet|no-TTY"
    r"|no-healthcheck|oom-kill-disable|disable-content-trust|sig-proxy|no-deps|service-ports"
    r"|build|use-aliases|replace|tls-verify|no-hosts|env-host|stdin|attach|quiet-pull)|--[\w-]+=.*"
    r"|-[a-zA-Z]\S*[^a-zA-Z\s]\S*"
)
"""Options of `run` without a value."""


def _started(args: Sequence[str]) -> tuple[str, ...]:
    """The command of a container, from the arguments after `run`."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        at += 1 if _RUN_SWITCHES.fullmatch(args[at]) else 2
    return (*Invocation("run", tuple(args[:at])).value_of("--entrypoint"), *args[at + 1 :])
