"""The read-only volume through which the supervisor comes into every container.

A container that mounts the volume and never starts is used to fill it, which works with remote
engines too. Its final name declares the volume complete, and its existence keeps the volume from
being pruned. All functions block.
"""

import contextlib
import io
import secrets
import sys
import tarfile
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from executor_service.backends.bridge import PYTHON
from executor_service.backends.supervisor_zipapp import PROGRAM, list_files

if TYPE_CHECKING:
    import docker

FOLDER = "/opt/hermes"
"""Where containers mount the volume."""
SUPERVISOR = (*PYTHON, f"{FOLDER}/{PROGRAM}")
_PREFIX = "hermes-supervisor-"
ROLE = "org.hermes.role"
HOLDER = "supervisor-volume"
_VOLUME = "org.hermes.volume"
_KEEP_OLD_S = 3600


def supervisor_volume(sdk: "docker.DockerClient", image: str, supervisor: bytes) -> str:
    """Return the name of a volume with this supervisor, filled now if it is new."""
    from docker.errors import NotFound

    version = f"unpacked, {sys.implementation.cache_tag}".encode()
    name = f"{_PREFIX}{sha256(version + supervisor).hexdigest()[:16]}"
    with contextlib.suppress(NotFound):
        return _volume_of(sdk, name)
    _remove_old_ones(sdk, name)
    return _fill(sdk, image, name, supervisor)


def _volume_of(sdk: "docker.DockerClient", name: str) -> str:
    return cast("str", sdk.api.inspect_container(name)["Config"]["Labels"][_VOLUME])


def _fill(sdk: "docker.DockerClient", image: str, name: str, supervisor: bytes) -> str:
    from docker.errors import APIError
    from docker.types import Mount

    volume = f"{name}-{secrets.token_hex(4)}"
    created = cast("Any", sdk.api).create_container(
        image,
        ["true"],
        name=volume,
        labels={ROLE: HOLDER, _VOLUME: volume},
        host_config=sdk.api.create_host_config(
            mounts=[Mount(FOLDER, volume, type="volume")], network_mode="none"
        ),
        use_config_proxy=False,
    )
    holder: str = created["Id"]
    try:
        sdk.api.put_archive(holder, FOLDER, _tar(supervisor))
        sdk.api.rename(holder, name)
    except APIError as error:
        sdk.api.remove_container(holder, force=True)
        sdk.api.remove_volume(volume)
        if error.status_code == 409:
            # Another executor was faster.
            return _volume_of(sdk, name)
        raise
    return volume


def _tar(supervisor: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in list_files(supervisor, FOLDER):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o444
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _remove_old_ones(sdk: "docker.DockerClient", name: str) -> None:
    """Remove volumes of other versions; the engine keeps those that a container still mounts."""
    from docker.errors import APIError

    api = cast("Any", sdk.api)
    for holder in api.containers(all=True, filters={"label": f"{ROLE}={HOLDER}"}):
        if time.time() - holder["Created"] > _KEEP_OLD_S and f"/{name}" not in holder["Names"]:
            with contextlib.suppress(APIError):
                api.remove_container(holder["Id"], force=True)
    for volume in api.volumes(filters={"name": _PREFIX})["Volumes"] or ():
        with contextlib.suppress(APIError):
            api.remove_volume(volume["Name"])
