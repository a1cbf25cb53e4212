"""What the supervisor is told on its command line.

Read by hand: argparse with all that it needs was a tenth of a supervisor's start.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

_ORPHAN_TIMEOUT_S = 1800.0


class Options(NamedTuple):
    """Each field is an option: `listen_fd` is `--listen-fd N`."""

    listen_fd: int | None = None
    socket: str = ""
    birth: str = ""
    """Where the executor hands out a socket to be used instead of the one before."""
    box: str = ""
    secret_sha256: str = ""
    unclaimed: bool = False
    """The box is that of whoever speaks first, and waits for him without end; takes no value."""
    workspace: str = "/workspace"
    tmp: str = ""
    """Folder for temporary files of a box that shares its machine with others."""
    orphan_timeout_s: float = _ORPHAN_TIMEOUT_S
    ready_fd: int | None = None
    """A socket: gets a byte when the box can be used, gives one when it is remembered."""
    filter_fd: int | None = None
    """A system call filter to load, where what makes the box cannot load it."""
    max_processes: int = 0
    """Per user namespace: Linux >= 5.14."""


_NUMBERS: dict[str, Callable[[str], float]] = {
    "listen_fd": int,
    "orphan_timeout_s": float,
    "ready_fd": int,
    "filter_fd": int,
    "max_processes": int,
}


def read_options(argv: Sequence[str]) -> Options:
    """The options of a command line; ValueError for what they cannot mean."""
    found: dict[str, object] = {}
    words = iter(argv)
    for word in words:
        name = word[2:].replace("-", "_")
        if not word.startswith("--") or name not in Options._fields:
            raise ValueError(f"there is no option {word}")
        value = "" if name == "unclaimed" else next(words, None)
        if value is None:
            raise ValueError(f"{word} needs a value")
        found[name] = name == "unclaimed" or _NUMBERS.get(name, str)(value)
    options = Options()._replace(**found)
    if options.unclaimed == bool(options.box and options.secret_sha256):
        raise ValueError("--box and --secret-sha256 are needed, or --unclaimed")
    if (options.listen_fd is None) == (not options.socket):
        raise ValueError("give either --listen-fd or --socket")
    return options
