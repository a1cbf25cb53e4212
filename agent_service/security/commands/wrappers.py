"""Programs that run another program: where in their arguments it stands."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from agent_service.security.commands.containers import image_at, started
from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import is_known


class Wrapper(Struct, frozen=True):
    """How the inner command is found."""

    valued: frozenset[str] = frozenset()
    """Options that take the next argument."""
    skipped: int = 0
    """Operands before the inner command."""
    settings: bool = False
    """Whether NAME=value may stand before it."""
    scripts: frozenset[str] = frozenset()
    """Options whose value is shell text."""
    as_text: bool = False
    """Whether the inner words are joined and read as shell text."""
    paired: frozenset[str] = frozenset()
    """Options that take the next two arguments."""
    sets: frozenset[str] = frozenset()
    """Options that set a variable for it: `NAME=value`, or two arguments where they take two."""
    after: str = ""
    """A word behind which the inner command stands; nothing is run where it is missing."""


def _wrapper(valued: str = "", skipped: int = 0, scripts: str = "", **more: object) -> Wrapper:
    return Wrapper(
        frozenset((valued + " " + scripts).split()),
        skipped,
        paired=listed(str(more.get("paired", ""))),
        settings=bool(more.get("settings")),
        scripts=frozenset(scripts.split()),
        as_text=bool(more.get("as_text")),
        sets=listed(str(more.get("sets", ""))),
        after=str(more.get("after", "")),
    )


_SUDO = (
    "-u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T "
    "--command-timeout -U --other-user -D --chdir -R --chroot -a"
)

_BWRAP = (
    "--args --argv0 --userns --userns2 --pidns --uid --gid --hostname --chdir --unsetenv "
    "--lock-file --sync-fd --exec-label --file-label --proc --dev --tmpfs --mqueue --dir "
    "--remount-ro --overlay-src --tmp-overlay --ro-overlay --seccomp --add-seccomp-fd --block-fd "
    "--userns-block-fd --info-fd --json-status-fd --cap-add --cap-drop --perms --size"
)
_BWRAP_PAIRED = (
    "--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --bind-fd --ro-bind-fd "
    "--file --bind-data --ro-bind-data --symlink --setenv --chmod"
)

WRAPPERS: Mapping[str, Wrapper] = MappingProxyType(
    {
        "sudo": _wrapper(_SUDO, settings=True),
        "sudo-rs": _wrapper(_SUDO, settings=True),
        "doas": _wrapper("-u -C -a", settings=True),
        "pkexec": _wrapper("--user -u"),
        "gosu": _wrapper(skipped=1),
        "su-exec": _wrapper(skipped=1),
        "run0": _wrapper("-u --user -g --unit --property --setenv", settings=True, sets="--setenv"),
        "env": _wrapper("-u --unset -C --chdir -P", scripts="-S --split-string", settings=True),
        "command": _wrapper(),
        "builtin": _wrapper(),
        "exec": _wrapper("-a"),
        "nice": _wrapper("-n --adjustment"),
        "ionice": _wrapper("-c -n --class --classdata"),
        "chrt": _wrapper("-T -P -D", skipped=1),
        "taskset": _wrapper(skipped=1),
        "numactl": _wrapper("-N -m -C -i -p --membind --cpunodebind --physcpubind"),
        "timeout": _wrapper("-s --signal -k --kill-after", skipped=1),
        "gtimeout": _wrapper("-s --signal -k --kill-after", skipped=1),
        "nohup": _wrapper(),
        "setsid": _wrapper(),
        "stdbuf": _wrapper("-i -o -e --input --output --error"),
        "unbuffer": _wrapper(),
        "time": _wrapper("-f -o --format --output"),
        "gtime": _wrapper("-f -o --format --output"),
        "strace": _wrapper("-e -o -s -p -u -E -a -S -P -I -b -O -X"),
        "ltrace": _wrapper("-e -o -s -p -u -F -n -a -l -x"),
        "valgrind": _wrapper(),
        "perf": _wrapper("-e -o -F -p", skipped=1),
        "chroot": _wrapper("--userspec --groups", skipped=1),
        "unshare": _wrapper("-R -w -S -G --root --wd --map-user --map-group --setuid --setgid"),
        "nsenter": _wrapper("-t -S -G --target --setuid --setgid"),
        "setpriv": _wrapper(
            "--reuid --regid --groups --inh-caps --bounding-set --ambient-caps --securebits"
        ),
        "capsh": _wrapper(scripts="-c"),
        "proot": _wrapper("-r -b -w -q -R -S"),
        "fakeroot": _wrapper("-s -i -b"),
        "fakechroot": _wrapper(),
        "firejail": _wrapper(),
        "bwrap": _wrapper(_BWRAP, paired=_BWRAP_PAIRED, sets="--setenv"),
        "systemd-run": _wrapper(
            "-p -u --unit --property -E --setenv -M --machine -H --host --slice --uid --gid "
            "--on-calendar --on-active --on-boot --working-directory -d",
            sets="-E --setenv",
        ),
        "systemd-inhibit": _wrapper("--what --who --why --mode"),
        "dbus-run-session": _wrapper("--config-file --dbus-daemon"),
        "xvfb-run": _wrapper("-n -s -e -f -w -p"),
        "torify": _wrapper(),
        "torsocks": _wrapper("-u -p -a -P"),
        "proxychains": _wrapper("-f"),
        "proxychains4": _wrapper("-f"),
        "tsocks": _wrapper(),
        "xargs": _wrapper(
            "-I -n -P -L -d -a -s -E -i --replace --max-args --max-procs --delimiter --arg-file "
            "--max-lines --max-chars --eof --process-slot-var"
        ),
        "gxargs": _wrapper("-I -n -P -L -d -a -s -E"),
        "parallel": _wrapper("-j -n -N -I -a -L -S --jobs --colsep --arg-file -d", as_text=True),
        "watch": _wrapper("-n --interval -q --equexit", as_text=True),
        "entr": _wrapper(),
        "script": _wrapper("-I -O -B -o -m -E -T", scripts="-c --command", skipped=1),
        "su": _wrapper("-g -G -w -s", scripts="-c --command --session-command", after="\0"),
        "runuser": _wrapper("-u -g -G -w -s", scripts="-c --command --session-command"),
        "sg": _wrapper(scripts="-c", skipped=1, as_text=True),
        "newgrp": _wrapper(after="\0"),
        "flock": _wrapper(
            "-w -E --timeout --conflict-exit-code", skipped=1, scripts="-c --command"
        ),
        "busybox": _wrapper(),
        "toybox": _wrapper(),
        "tini": _wrapper("-p -e"),
        "dumb-init": _wrapper("-r"),
        "catchsegv": _wrapper(),
        "rlwrap": _wrapper("-f -H -C -b -s"),
        "winpty": _wrapper(),
        "eatmydata": _wrapper(),
        "linux32": _wrapper(),
        "linux64": _wrapper(),
        "setarch": _wrapper(skipped=1),
        "cgexec": _wrapper("-g"),
        "prlimit": _wrapper("-p"),
        "softlimit": _wrapper("-m -d -s -a"),
        "logsave": _wrapper(skipped=1),
        "openvt": _wrapper("-c"),
        "start-stop-daemon": _wrapper(after="--"),
        "daemonize": _wrapper("-p -u -c -e -o -l -E"),
        "daemon": _wrapper("-n -u -o -r", settings=True),
        "caffeinate": _wrapper("-t -w"),
        "arch": _wrapper(),
        "coproc": _wrapper(),
        "not": _wrapper(),
        "chpst": _wrapper("-u -U -e -n -l -L -m -d -b"),
        "s6-setuidgid": _wrapper(skipped=1),
        "ssh-agent": _wrapper("-a -t"),
        "dbus-launch": _wrapper(),
        "faketime": _wrapper(skipped=1),
        "hyperfine": _wrapper("-w -r -m -M -p -c -n --warmup --runs", as_text=True),
        "ts": _wrapper(after="--"),
        "xdotool": _wrapper(after="--sync"),
        "uv": _wrapper("--with --python -p --project --directory", after="run"),
        "poetry": _wrapper(after="run"),
        "pipenv": _wrapper(after="run"),
        "bundle": _wrapper(after="exec"),
        "rustup": _wrapper(after="run", skipped=1),
        "conda": _wrapper("-n -p --name --prefix", after="run"),
        "direnv": _wrapper(after="exec", skipped=1),
        "dotenv": _wrapper(after="--"),
        "op": _wrapper(after="--"),
        "composer": _wrapper(after="--"),
        "nix-shell": _wrapper("-p", scripts="--run --command", after="\0"),
        "tmux": _wrapper(
            "-s -n -c -t -L -f -S -x -y -F new-session new-window split-window neww new splitw "
            "respawn-pane run-shell run",
            as_text=True,
            after="\0tmux",
        ),
        "screen": _wrapper("-S -c -t -T -h -s -X -p -L -Logfile", skipped=0),
        "npx": _wrapper("-p --package", scripts="-c --call"),
        "bunx": _wrapper(),
        "pnpx": _wrapper(),
        "uvx": _wrapper("--from --with"),
        "git-bisect": _wrapper(after="run"),
        "crun": _wrapper(after="\0"),
        "machinectl": _wrapper(
            "-M --uid -E --setenv", after="shell", skipped=1, sets="-E --setenv"
        ),
        "lxc": _wrapper(after="--"),
        "lxc-attach": _wrapper("-n --name -P -v", after="--", sets="-v --set-var"),
        "incus": _wrapper(after="--"),
        "adb": _wrapper("-s -t -H -P", after="shell", as_text=True),
        "distrobox": _wrapper(after="--"),
        "toolbox": _wrapper("-c --container", after="run"),
        "wsl": _wrapper("-d -u -e", after="--"),
        "flatpak-spawn": _wrapper(),
    }
)
"""Every program that runs what its arguments say."""

_FIRST_WORDS = frozenset(
    {"ld.so", "ld-linux.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
)
_CONTAINERS = frozenset(
    {"docker", "podman", "nerdctl", "kubectl", "oc", "docker-compose", "podman-compose"}
)
_CONTAINER = _wrapper(
    "-e -u -w --env --user --workdir -n --namespace -c --container --context --detach-keys "
    "--env-file",
    sets="-e --env",
)


def is_wrapper(invocation: Invocation) -> bool:
    """Whether it runs what its arguments say."""
    if invocation.name == "command" and invocation.args[:1] in (("-v",), ("-V",)):
        return False
    return (
        invocation.name in WRAPPERS
        or invocation.name in _FIRST_WORDS
        or (invocation.name in _CONTAINERS and invocation.has("exec", "run"))
    )


class Inner(Struct, frozen=True):
    """What a wrapper runs."""

    argv: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    def setting(self, settings: tuple[tuple[str, str], ...]) -> "Inner":
        """The same, with variables set before its own."""
        return Inner(self.argv, self.scripts, (*settings, *self.settings))


def unwrap(invocation: Invocation) -> Inner:
    """What a wrapper runs: words, shell texts, or nothing."""
    if invocation.name in _CONTAINERS:
        return _executed(invocation).setting(_set(invocation, _CONTAINER))
    wrapper = WRAPPERS.get(invocation.name, Wrapper())
    return _wrapped(invocation, wrapper).setting(_set(invocation, wrapper))


def _set(invocation: Invocation, wrapper: Wrapper) -> tuple[tuple[str, str], ...]:
    """The variables that options set for what is run."""
    if not wrapper.sets:
        return ()
    args = _before_command(invocation, wrapper)
    pairs = tuple(
        (args[at + 1], args[at + 2])
        for at, arg in enumerate(args[:-2])
        if arg in wrapper.sets & wrapper.paired
    )
    own = Invocation(invocation.name, args)
    told = own.value_of(*(wrapper.sets - wrapper.paired)) if not pairs else ()
    return (*pairs, *((name, value) for name, _, value in (each.partition("=") for each in told)))


def _before_command(invocation: Invocation, wrapper: Wrapper) -> tuple[str, ...]:
    """The arguments that are for the wrapper itself, up to the image, container or command."""
    args = invocation.args
    verbs = ("exec", "run") if wrapper is _CONTAINER else (wrapper.after,)
    start = next((at for at, arg in enumerate(args, 1) if arg in verbs), 0)
    if wrapper is _CONTAINER and args[start - 1] == "run":
        if invocation.name in ("kubectl", "oc"):  # whose options may stand behind its operands
            return args[: args.index("--")] if "--" in args else args
        return args[: start + image_at(args[start:])]
    return args[: len(args) - len(_behind_options(list(args[start:]), wrapper))]


def _wrapped(invocation: Invocation, wrapper: Wrapper) -> Inner:
    args = list(invocation.args)
    scripts = tuple(invocation.value_of(*wrapper.scripts)) if wrapper.scripts else ()
    scripts += _clustered(wrapper, args)
    if wrapper.after == "\0tmux":
        return Inner(scripts=(*(arg for arg in args if " " in arg), _last_command(args)))
    if wrapper.after:
        if wrapper.after not in args:
            return Inner(scripts=scripts)
        args = args[args.index(wrapper.after) + 1 :]
    if invocation.name == "start-stop-daemon":
        started = invocation.value_of("--exec", "-x", "--startas", "-a")
        return Inner((*started[-1:], *args))
    rest = _behind_options(args, wrapper)
    settings: list[tuple[str, str]] = []
    while wrapper.settings and rest and _sets(rest):
        name, _, value = rest.pop(0).partition("=")
        settings.append((name, value))
    rest = rest[wrapper.skipped :]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if scripts and invocation.name != "env":
        return Inner(scripts=scripts, settings=tuple(settings))
    if wrapper.as_text or (len(rest) == 1 and " " in rest[0]):
        return Inner(scripts=(*scripts, " ".join(rest)), settings=tuple(settings))
    if invocation.name == "env" and scripts:
        return Inner(scripts=(" ".join((*scripts, *rest)),))
    return Inner(tuple(rest), settings=tuple(settings))


def _sets(words: list[str]) -> bool:
    """Whether the first word sets a variable, or stands for those that do: `env $(cat .env) ls`."""
    if is_known(words[0]):
        return "=" in words[0] and not words[0].startswith(("/", "="))
    return "=" in words[0] or re.match(r"\w", "".join(words[1:2])) is not None


def _clustered(wrapper: Wrapper, args: list[str]) -> tuple[str, ...]:
    """The text after short options given together, such as `-qc text` and `-lc text`."""
    if "-c" not in wrapper.scripts:
        return ()
    return tuple(
        args[number + 1]
        for number, arg in enumerate(args[:-1])
        if len(arg) > 2 and arg[0] == "-" and arg[1] != "-" and arg[-1] == "c"
    )


def _behind_options(args: list[str], wrapper: Wrapper) -> list[str]:
    at = 0
    while at < len(args):
        arg = args[at]
        if arg == "--":
            return args[at + 1 :]
        if not arg.startswith("-") and not (arg.startswith("+") and len(arg) > 1):
            break
        if arg in wrapper.paired:
            at += 3
        else:
            at += 2 if arg in wrapper.valued or _ends_valued(arg, wrapper) else 1
    return args[at:]


def _ends_valued(arg: str, wrapper: Wrapper) -> bool:
    """Whether short options are given together, and the last takes the next argument."""
    return arg[:1] == "-" and len(arg) > 2 and arg[1:].isalpha() and f"-{arg[-1]}" in wrapper.valued


def _executed(invocation: Invocation) -> Inner:
    args = list(invocation.args)
    verb = next(arg for arg in args if arg in ("exec", "run"))
    args = args[args.index(verb) + 1 :]
    if verb == "run" and "--" not in args:
        return (
            Inner(started(args)) if not invocation.name.startswith(("kubectl", "oc")) else Inner()
        )
    if "--" in args:
        return Inner(tuple(args[args.index("--") + 1 :]))
    rest = _behind_options(args, _CONTAINER)
    return Inner(tuple(rest[1:]))


def _last_command(args: list[str]) -> str:
    for number, arg in enumerate(args):
        if arg in ("new-session", "new-window", "split-window", "neww", "new", "run-shell", "run"):
            return " ".join(_behind_options(args[number + 1 :], WRAPPERS["tmux"]))
    return ""
