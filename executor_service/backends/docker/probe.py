"""Whether a Docker engine can make boxes here, and what it enforces."""

import asyncio
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from executor_service.backends.base import Capabilities, Enforcement, LimitSupport, WorkspacePlace
from executor_service.backends.docker.engine import Engine
from executor_service.backends.docker.gvisor import BUILD, host_pids
from executor_service.backends.docker.users import BoxUser, find_user
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused
from executor_service.records.sandboxes import Isolation
from services.lifecycle import all_of

if TYPE_CHECKING:
    import docker

NAME = "docker"
_ANSWER_DEADLINE_S = 2.0
_OWN_IMAGE = "org.hermes.sandbox.recipe"
_SAFE_RUNC = {(1, 2): 8, (1, 3): 3}
"""By minor version, the first fixed release; later minor versions are safe."""
_SHARES_THE_KERNEL = "runc"
_IN_GVISOR = 3
_LOOK = f"""
import os, sys
if sys.version_info < (3, 8): sys.exit(1)
sys.exit({_IN_GVISOR} if os.uname().version == {BUILD!r} else 0)
"""
_LOOK_DEADLINE_S = 20

Facts = Mapping[str, Any]


async def probe(engine: Engine, image: str, runtime: str) -> tuple[Capabilities, BoxUser | None]:
    """Return the engine's capabilities, and the user of commands; None if it cannot be used."""
    place = WorkspacePlace.HERE if engine.address.is_local else WorkspacePlace.THERE
    try:
        found, user = await _ask(engine, image, runtime)
    except BackendError as error:
        found, user = _capabilities(str(error), {}, Isolation.NAMESPACE, available=False), None
    return replace(found, workspaces=place), user


async def _ask(engine: Engine, image: str, runtime: str) -> tuple[Capabilities, BoxUser]:
    await engine.ask("GET", "/_ping", deadline_s=_ANSWER_DEADLINE_S)
    info, version, about_image = await all_of(
        (engine.ask("GET", "/info"), engine.ask("GET", "/version"), _inspect(engine, image))
    )
    _check(info, runtime)
    user = await asyncio.to_thread(find_user, info, engine.address, os.geteuid())
    used = runtime or str(info["DefaultRuntime"])
    is_own = _OWN_IMAGE in (about_image["Config"]["Labels"] or {})
    isolation = Isolation.NAMESPACE
    if used != _SHARES_THE_KERNEL or not is_own:
        isolation = await engine.call(lambda sdk: _look_inside(sdk, image, runtime))
    reason = _describe(info, version, engine, used, isolation)
    return _capabilities(reason, info, isolation, available=True), user


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


def _look_inside(sdk: "docker.DockerClient", image: str, runtime: str) -> Isolation:
    """Run the image's Python once, to learn its version and its kernel."""
    from docker.errors import APIError

    container = sdk.containers.create(
        image,
        ["-I", "-c", _LOOK],
        entrypoint="python3",
        runtime=runtime or None,
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=host_pids(16),
        mem_limit="128m",
        read_only=True,
    )
    try:
        container.start()
        status = container.wait(timeout=_LOOK_DEADLINE_S)["StatusCode"]
    except APIError as error:
        raise BackendUnavailable(
            f"python3 of the image {image} cannot be started: {error.explanation}"
        ) from error
    finally:
        container.remove(force=True)
    if status == _IN_GVISOR:
        return Isolation.USERSPACE_KERNEL
    if status != 0:
        raise BackendUnavailable(
            f"the image {image} has no python3 of version 3.8 or newer, which boxes need"
        )
    return Isolation.NAMESPACE


def _capabilities(
    reason: str, info: Facts, isolation: Isolation, *, available: bool
) -> Capabilities:
    def held(*flags: str) -> Enforcement:
        return Enforcement.ENFORCED if all(map(info.get, flags)) else Enforcement.NONE

    return Capabilities(
        name=NAME,
        available=available,
        reason=reason,
        isolation=isolation,
        limits=LimitSupport(
            memory=held("MemoryLimit"),
            cpu=held("CpuCfsQuota"),
            pids=held("PidsLimit"),
            tmp=Enforcement.ENFORCED if available else Enforcement.NONE,
        ),
    )


def _describe(info: Facts, version: Facts, engine: Engine, used: str, isolation: Isolation) -> str:
    """Describe in one line how boxes run here, with hints for operators."""
    options = " ".join(info["SecurityOptions"])
    notes = [f"engine {version['Version']} at {engine.address.url}"]
    is_gvisor = isolation is Isolation.USERSPACE_KERNEL
    notes.append(f"runtime {used}{', which is gVisor' if is_gvisor else ''}")
    if "name=rootless" in options:
        notes.append("rootless")
    if not info.get("SwapLimit"):
        notes.append("swap is not limited")
    parts = {part["Name"]: part["Version"] for part in version.get("Components") or ()}
    if used == _SHARES_THE_KERNEL and (warning := runc_warning(parts.get("runc", ""))):
        notes.append(warning)
    return "; ".join(notes)


def runc_warning(version: str) -> str:
    """The known vulnerability of a runc version; empty if there is none."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return f"runc's version is {version or 'unknown'}: whether it is safe cannot be checked"
    major, minor, release = map(int, found.groups())
    repaired = release >= _SAFE_RUNC.get((major, minor), 0) and (major, minor) >= min(_SAFE_RUNC)
    if repaired and "-rc" not in version:
        return ""
    also = ", CVE-2024-21626" if (major, minor, release) < (1, 1, 12) else ""
    return (
        f"WARNING: commands can break out of boxes with runc {version} (CVE-2025-31133 and "
        f"related{also}) unless your distribution has patched it; update to 1.2.8, 1.3.3, 1.4.0 or "
        "later"
    )
