"""When a node ends a pod that writes more than it may, and what it says of that."""

from pathlib import Path

from executor_service.backends.kubernetes.api import Json
from executor_service.supervisor.trees import measure

LOOK_S = 1.0
"""Ten times as often as a kubelet."""


def why_too_large(pod: Json, volumes: Path) -> str:
    """What a kubelet says of a pod whose files are too large; empty as long as they are not."""
    total = 0
    for volume in pod["spec"]["volumes"]:
        empty = volume.get("emptyDir")
        if empty is None or empty.get("medium") == "Memory":
            continue
        most = int(empty["sizeLimit"])
        used, is_all = measure(volumes / volume["name"], most)
        if not is_all:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{most}". '
        total += used
    (container,) = pod["spec"]["containers"]
    limit = container["resources"]["limits"].get("ephemeral-storage")
    if limit is not None and total > int(limit):
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    return ""
