# ruff: noqa: INP001, as it lies beside programs and is no package
"""What the programs beside it share: the engine, whether a registry answers, Debian's packages."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import docker
from docker.errors import APIError, DockerException, ImageNotFound

SUITE = "bookworm"
LEFT_OUT = ("man", "info", "locale")
"""Folders of /usr/share that packages leave out."""
REGISTRY_DEADLINE_S = 5
ENGINE_DEADLINE_S = 600


class CannotMakeImage(Exception):
    """No way leads to the image here; the message says what to do."""


def say(text: str) -> None:
    """Tell the person who waits, under the name of the program."""
    sys.stderr.write(f"{Path(sys.argv[0]).name}: {text}\n")
    sys.stderr.flush()


def version() -> str:
    """Of Hermes, which is that of its images."""
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    return tomllib.loads(pyproject.read_text())["project"]["version"]


def packages(file: Path) -> list[str]:
    """The names in a list of packages, one a line, with comments."""
    lines = file.read_text().splitlines()
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def connect() -> docker.DockerClient:
    """The engine; fails with CannotMakeImage where none answers."""
    try:
        docker.from_env(timeout=REGISTRY_DEADLINE_S).ping()
        return docker.from_env(timeout=ENGINE_DEADLINE_S)
    except DockerException as error:
        raise CannotMakeImage(
            f"no Docker engine answers ({error}); start one, or point DOCKER_HOST at one "
            "(docker/start-engine starts one where no service manager does)"
        ) from error


def why_not_registry(base: str) -> str | None:
    """None if the engine has the base image or can pull it; else the engine's reason."""
    client = docker.from_env(timeout=REGISTRY_DEADLINE_S)
    with contextlib.suppress(ImageNotFound):
        client.images.get(base)
        return None
    try:
        # The engine asks the registry itself: it may sit elsewhere or go through a proxy.
        client.images.get_registry_data(base)
    except (APIError, OSError) as error:
        return str(getattr(error, "explanation", None) or error)
    return None


def host_mirrors() -> list[str]:
    """apt source lines for the suite, from the Debian mirrors that this host is configured for."""
    if shutil.which("apt-get") is None:
        return []
    listing = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI) $(LABEL)",
            "Created-By: Packages",
            "Origin: Debian",
        ],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    mirrors = {
        label: uri for uri, _, label in (line.partition(" ") for line in listing.splitlines())
    }
    lines: list[str] = []
    if archive := mirrors.get("Debian"):
        lines += [f"deb {archive} {SUITE} main", f"deb {archive} {SUITE}-updates main"]
    if security := mirrors.get("Debian-Security"):
        lines.append(f"deb {security} {SUITE}-security main")
    return lines


def host_apt_options() -> str:
    """How this host's apt reaches its mirrors: proxy, certificates, retries, checks of dates."""
    if shutil.which("apt-config") is None:
        return ""
    dump = subprocess.run(
        ["apt-config", "dump"], check=False, capture_output=True, text=True
    ).stdout
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-")
    return "".join(line + "\n" for line in dump.splitlines() if line.startswith(wanted))


def need_mmdebstrap() -> None:
    """Fail with CannotMakeImage where there is none, before anything else is said."""
    if shutil.which("mmdebstrap") is None:
        raise CannotMakeImage(
            "mmdebstrap, which makes images from Debian packages, is not installed: "
            "apt-get install mmdebstrap"
        )


def from_packages(
    client: docker.DockerClient,
    tag: str,
    names: Sequence[str],
    hooks: Sequence[str] = (),
    changes: Sequence[str] = (),
) -> None:
    """Make a root file system with mmdebstrap, and import it with `changes` as the image."""
    with tempfile.TemporaryDirectory(prefix="hermes-image-") as folder:
        root_tar, apt_options = Path(folder, "root.tar"), Path(folder, "apt.conf")
        apt_options.write_text(host_apt_options())
        command = [
            "mmdebstrap",
            "--variant=minbase",
            f"--include={','.join(names)}",
            f"--aptopt={apt_options}",
            *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in LEFT_OUT),
            *(f"--customize-hook={hook}" for hook in hooks),
            '--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf"',
            SUITE,
            str(root_tar),
            *host_mirrors(),
        ]
        if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
            raise CannotMakeImage("mmdebstrap failed; its own messages are above")
        say(f"importing {root_tar.stat().st_size // 2**20} MiB into the engine")
        repository, _, version = tag.partition(":")
        client.api.import_image_from_file(
            str(root_tar), repository=repository, tag=version, changes=list(changes)
        )
