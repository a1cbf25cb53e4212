"""What stands behind `run` of docker and its like: options, the image, what is started in it."""

import re
from collections.abc import Sequence
from itertools import pairwise

from agent_service.security.commands.invocation import Invocation

_RUN_SWITCHES = re.compile(
    r"-[itdPqT]+|--(?:rm|interactive|tty|detach|privileged|init|publish-all|read-only|quiet|no-TTY"
    r"|no-healthcheck|oom-kill-disable|disable-content-trust|sig-proxy|no-deps|service-ports"
    r"|build|use-aliases|replace|tls-verify|no-hosts|env-host|stdin|attach|quiet-pull)|--[\w-]+=.*"
    r"|-[a-zA-Z]\S*[^a-zA-Z\s]\S*"
)
"""Options of `run` that take no next argument."""


def image_at(args: Sequence[str]) -> int:
    """Where among what stands behind `run` the image is."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        at += 1 if _RUN_SWITCHES.fullmatch(args[at]) else 2
    return at


def started(args: Sequence[str]) -> tuple[str, ...]:
    """What a container is started with, behind its image; `args` stand behind `run`."""
    at = image_at(args)
    entry = [value for option, value in pairwise(args[: at + 1]) if option == "--entrypoint"]
    entry += [arg.partition("=")[2] for arg in args[:at] if arg.startswith("--entrypoint=")]
    mounted = _mounts(args[:at])
    return tuple(_outside(word, mounted) for word in (*entry, *args[at + 1 :]))


_MOUNT = re.compile(r"(?:^|,)(source|src|target|destination|dst)=([^,]+)")


def _mounts(args: Sequence[str]) -> list[tuple[str, str]]:
    """Folders of the machine that a container is given, each behind its name in there."""
    found: list[tuple[str, str]] = []
    for value in Invocation("run", tuple(args)).value_of("-v", "--volume", "--mount"):
        told = {name[0]: path for name, path in _MOUNT.findall(value)}
        host, _, inside = value.partition(":")
        if told:
            host, inside = told.get("s", ""), told.get("t") or told.get("d", "")
        if host.startswith("/") and inside.startswith("/"):
            found.append((inside.partition(":")[0].rstrip("/"), host.rstrip("/")))
    return [mount for mount in found if mount[0]]


def _outside(word: str, mounted: list[tuple[str, str]]) -> str:
    """The word with the folders of a container as they are called outside of it."""
    for inside, host in mounted:
        place = re.compile(rf"(?<![\w./-]){re.escape(inside)}(?=(/?)(?:$|[\s/'\";*&|]))")
        word = place.sub(lambda match, host=host: host or ("" if match[1] else "/"), word)
    return word
