"""What boxes need in the namespace besides their pods: an owner, the supervisor, their secrets.

Each is made by whoever needs it first, and whoever comes second takes what is there.
"""

import asyncio
import base64
from collections.abc import Sequence
from hashlib import sha256
from http import HTTPStatus

from executor_service.backends.kubernetes.api import RAW, Cluster, Json, part, parts
from executor_service.backends.kubernetes.pod import (
    PROGRAM,
    SELECTED,
    Objects,
)
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendUnavailable, EngineRefused
from services.task_groups import ungrouped

_MAX_CONFIG_MAP_BYTES = 1024 * 1024
_SECRET_KEY = "secret"  # noqa: S105


async def ensure_objects(cluster: Cluster, options: KubernetesConfig, supervisor: bytes) -> Objects:
    """The owner of all boxes and the ConfigMap with the supervisor, made if they are missing."""
    owner = await _ensure(cluster, options.namespace, {"metadata": {"name": options.release}})
    reference = _reference(owner)
    if len(supervisor) > _MAX_CONFIG_MAP_BYTES:
        raise BackendUnavailable("the supervisor is too large for a ConfigMap")
    name = f"{options.release}-supervisor-{sha256(supervisor).hexdigest()[:16]}"
    content = {
        "metadata": {"name": name, "ownerReferences": [reference]},
        "binaryData": {PROGRAM: base64.b64encode(supervisor).decode()},
        "immutable": True,
    }
    await _ensure(cluster, options.namespace, content)
    return Objects(reference, name)


async def _ensure(cluster: Cluster, namespace: str, config_map: Json) -> Json:
    metadata: Json = config_map["metadata"]
    name = metadata["name"]
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        **config_map,
        "metadata": {**metadata, "labels": dict(SELECTED)},
    }
    try:
        return await _read(cluster, namespace, name)
    except EngineRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    try:
        return await cluster.call(
            lambda api: api.core.create_namespaced_config_map(namespace, wanted, **RAW)
        )
    except EngineRefused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
    # Another executor was faster.
    return await _read(cluster, namespace, name)


async def _read(cluster: Cluster, namespace: str, name: str) -> Json:
    return await cluster.call(
        lambda api: api.core.read_namespaced_config_map(name, namespace, **RAW)
    )


def _reference(thing: Json) -> Json:
    metadata: Json = thing["metadata"]
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


async def keep_secret(cluster: Cluster, pod: Json, secret: str) -> None:
    """Note the secret of a pod where whoever may only look at pods does not see it.

    No pod mounts it, and it goes with the box that owns it.
    """
    metadata: Json = pod["metadata"]
    content = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {
            "name": metadata["name"],
            "labels": metadata["labels"],
            "ownerReferences": [_reference(pod)],
        },
        "data": {_SECRET_KEY: base64.b64encode(secret.encode()).decode()},
    }
    await cluster.call(
        lambda api: api.core.create_namespaced_secret(metadata["namespace"], content, **RAW)
    )


async def kept_secrets(cluster: Cluster, boxes: Sequence[Json]) -> dict[str, str]:
    """The secrets by the uid of their pods.

    Each is asked for by its name: whoever may list secrets reads those of everybody.
    """
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            reads = {
                box["metadata"]["uid"]: group.create_task(_kept_secret(cluster, box))
                for box in boxes
            }
    return {uid: read.result() for uid, read in reads.items() if read.result()}


async def _kept_secret(cluster: Cluster, box: Json) -> str:
    metadata: Json = box["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    try:
        found = await cluster.call(
            lambda api: api.core.read_namespaced_secret(name, namespace, **RAW)
        )
    except EngineRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return ""
        raise
    owners = {each["uid"] for each in parts(found, "metadata", "ownerReferences")}
    if metadata["uid"] not in owners or _SECRET_KEY not in part(found, "data"):
        return ""
    return base64.b64decode(found["data"][_SECRET_KEY]).decode()
