"""Whether a Docker engine can make boxes here, and what it really enforces."""

import asyncio
import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from executor_service.backends.base import (
    Capabilities,
    Enforcement,
    Isolation,
    LimitSupport,
    WorkspacePlace,
)
from executor_service.backends.engine import Engine
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused

if TYPE_CHECKING:
    import docker

NAME = "docker"
_ANSWER_DEADLINE_S = 2.0
_OWN_IMAGE = "org.hermes.sandbox.recipe"
_SAFE_RUNC = {(1, 2): 8, (1, 3): 3}
"""Minor versions that were repaired, and from which release on; later ones are safe."""
_USERSPACE_KERNELS = ("runsc", "gvisor")
_PYTHON_IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 8))"
_PYTHON_DEADLINE_S = 20

Facts = Mapping[str, Any]


async def probe(engine: Engine, image: str, runtime: str) -> Capabilities:
    """Ask the engine; a "no" says what to do about it."""
    found = await _ask(engine, image, runtime)
    place = WorkspacePlace.HERE if engine.address.is_local else WorkspacePlace.THERE
    return dataclasses.replace(found, workspaces=place)


async def _ask(engine: Engine, image: str, runtime: str) -> Capabilities:
    try:
        await engine.ask("GET", "/_ping", deadline_s=_ANSWER_DEADLINE_S)
        info, version, about_image = await asyncio.gather(
            engine.ask("GET", "/info"), engine.ask("GET", "/version"), _inspect(engine, image)
        )
        _check(info, runtime)
        if _OWN_IMAGE not in (about_image["Config"]["Labels"] or {}):
            await engine.call(lambda sdk: _check_python(sdk, image))
    except BackendError as error:
        return _capabilities(str(error), {}, runtime, available=False)
    return _capabilities(_describe(info, version, engine, runtime), info, runtime, available=True)


async def _inspect(engine: Engine, image: str) -> Facts:
    try:
        return await engine.ask("GET", f"/images/{image}/json")
    except EngineRefused as error:
        raise BackendUnavailable(
            f"the Docker engine has no image {image}: run `make sandbox-image`"
        ) from error


def _check(info: Facts, runtime: str) -> None:
    if info["OSType"] != "linux":
        raise BackendUnavailable("the Docker engine runs Windows containers, not Linux ones")
    if not any("seccomp" in option for option in info["SecurityOptions"] or ()):
        raise BackendUnavailable("the Docker engine cannot filter system calls (no seccomp)")
    if runtime and runtime not in info["Runtimes"]:
        raise BackendUnavailable(
            f"the Docker engine has no runtime {runtime}: add it to /etc/docker/daemon.json"
        )


def _check_python(sdk: "docker.DockerClient", image: str) -> None:
    """Run the image's Python once; images that we made are known to have it."""
    from docker.errors import APIError

    container = sdk.containers.create(
        image,
        ["-I", "-c", _PYTHON_IS_NEW_ENOUGH],
        entrypoint="python3",
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=16,
        mem_limit="128m",
        read_only=True,
    )
    try:
        container.start()
        status = container.wait(timeout=_PYTHON_DEADLINE_S)["StatusCode"]
    except APIError as error:
        status = str(error)
    finally:
        container.remove(force=True)
    if status != 0:
        raise BackendUnavailable(
            f"the image {image} has no python3 of version 3.8 or newer, which boxes need"
        )


def _capabilities(reason: str, info: Facts, runtime: str, *, available: bool) -> Capabilities:
    def held(*flags: str) -> Enforcement:
        return Enforcement.ENFORCED if all(map(info.get, flags)) else Enforcement.NONE

    gvisor = any(name in runtime for name in _USERSPACE_KERNELS)
    return Capabilities(
        name=NAME,
        available=available,
        reason=reason,
        isolation=Isolation.USERSPACE_KERNEL if gvisor else Isolation.NAMESPACE,
        limits=LimitSupport(
            memory=held("MemoryLimit"),
            cpu=held("CpuCfsQuota"),
            pids=held("PidsLimit"),
            tmp=Enforcement.ENFORCED if available else Enforcement.NONE,
            workspace=Enforcement.NONE,
        ),
    )


def _describe(info: Facts, version: Facts, engine: Engine, runtime: str) -> str:
    """One line on how boxes run here, with what an operator should know."""
    options = " ".join(info["SecurityOptions"])
    notes = [f"engine {version['Version']} at {engine.address.url}"]
    used = runtime or str(info["DefaultRuntime"])
    notes.append(f"runtime {used}")
    if "name=rootless" in options:
        notes.append("rootless")
    elif "name=userns" in options:
        notes.append("user namespaces remapped")
    if not info.get("SwapLimit"):
        notes.append("swap is not limited")
    parts = {part["Name"]: part["Version"] for part in version.get("Components") or ()}
    if used == "runc" and (warning := runc_warning(parts.get("runc", ""))):
        notes.append(warning)
    return "; ".join(notes)


def runc_warning(version: str) -> str:
    """What is known to be wrong with this runc, by its version; empty if nothing is."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return f"runc's version {version or 'is not told'}: whether it is safe cannot be told"
    major, minor, release = map(int, found.groups())
    repaired = release >= _SAFE_RUNC.get((major, minor), 0) and (major, minor) >= min(_SAFE_RUNC)
    if repaired and "-rc" not in version:
        return ""
    also = ", CVE-2024-21626" if (major, minor, release) < (1, 1, 12) else ""
    return (
        f"WARNING: runc {version} lets boxes out (CVE-2025-31133 and its family{also}) unless "
        "your distribution has patched it; update to 1.2.8, 1.3.3, 1.4.0 or later"
    )
