"""What a pod's status says: whether it is ready, why not yet, and why it never will be."""

from executor_service.backends.kubernetes.api import Json, part, parts
from executor_service.backends.kubernetes.pod import CONTAINER

_HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons why a container will never start."""

_OVER_ITS_SIZE = (
    "Usage of EmptyDir volume ",
    "ephemeral local storage usage exceeds the total limit of containers",
    "exceeded its local ephemeral storage limit",
)
"""What a kubelet reports of a pod that wrote too much."""


def is_running(pod: Json) -> bool:
    """Whether the supervisor has been started."""
    return "running" in part(_container(pod), "state")


def why_gone(pod: Json, uid: str) -> str:
    """Say why the box that was this pod is lost; empty if it is not."""
    status = part(pod, "status")
    if pod["metadata"]["uid"] != uid:
        return "another pod has its name"
    if pod["metadata"].get("deletionTimestamp"):
        return "its pod is being deleted"
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"its pod has ended: {_how_it_ended(pod)}"
    container = _container(pod)
    if container.get("restartCount") or "terminated" in part(container, "state"):
        return f"its container has ended: {_how_it_ended(pod)}"
    return ""


def is_out_of_memory(pod: Json) -> bool:
    """Whether the pod's memory limit ended its container."""
    container = _container(pod)
    return "OOMKilled" in {
        part(container, state, "terminated").get("reason") for state in ("state", "lastState")
    }


def is_over_its_size(pod: Json) -> bool:
    """Whether its node ended the pod because of its own writes, not those of others."""
    status = part(pod, "status")
    message = str(status.get("message") or "")
    return status.get("reason") == "Evicted" and any(said in message for said in _OVER_ITS_SIZE)


def why_hopeless(pod: Json) -> str:
    """Say why this pod will never run; empty while it may."""
    waiting = part(_container(pod), "state", "waiting")
    if waiting.get("reason") in _HOPELESS:
        return _line(waiting)
    return why_gone(pod, pod["metadata"]["uid"])


def why_unschedulable(pod: Json) -> str:
    """Say why no node takes this pod now; empty if one has, or nothing is known yet."""
    for condition in parts(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or "the cluster does not say why")
    return ""


def why_waiting(pod: Json) -> str:
    """Say what a pod that does not run yet waits for."""
    waiting = part(_container(pod), "state", "waiting")
    if waiting:
        return _line(waiting)
    conditions = parts(pod, "status", "conditions")
    unmet = [each for each in conditions if each.get("status") == "False" and each.get("message")]
    return _line(unmet[0]) if unmet else "the cluster does not say why"


def _container(pod: Json) -> Json:
    found = parts(pod, "status", "containerStatuses")
    return next((each for each in found if each.get("name") == CONTAINER), Json())


def _how_it_ended(pod: Json) -> str:
    status = part(pod, "status")
    if status.get("reason") or status.get("message"):
        return _line(status)
    ended = part(_container(pod), "state", "terminated")
    return _line(ended) if ended else "the cluster does not say why"


def _line(said: Json) -> str:
    parts = (str(said.get(name) or "") for name in ("reason", "message"))
    exit_code = f"exit code {said['exitCode']}" if "exitCode" in said else ""
    return " ".join(": ".join(filter(None, (*parts, exit_code))).split())
