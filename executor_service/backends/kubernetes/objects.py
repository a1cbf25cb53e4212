"""What boxes need in the namespace besides their pods: an owner, and the supervisor.

Each is made by whoever needs it first, and whoever comes second takes what is there.
"""

import base64
from hashlib import sha256
from http import HTTPStatus

from executor_service.backends.kubernetes.api import Cluster, Json
from executor_service.backends.kubernetes.pod import PROGRAM, SELECTED, Objects
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendUnavailable, EngineRefused

_MAX_CONFIG_MAP_BYTES = 1024 * 1024


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
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        return await cluster.call("GET", f"{path}/{name}")
    except EngineRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    try:
        return await cluster.call("POST", path, wanted)
    except EngineRefused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
    # Another executor was faster.
    return await cluster.call("GET", f"{path}/{name}")


def _reference(thing: Json) -> Json:
    metadata: Json = thing["metadata"]
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
