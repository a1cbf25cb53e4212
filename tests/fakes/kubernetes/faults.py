"""What can go wrong on purpose: with requests, and with pods."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from tests.fakes.kubernetes.store import now

if TYPE_CHECKING:
    from tests.fakes.kubernetes.server import Cluster


@dataclass
class Fault:
    """Answers that requests get instead."""

    code: int
    method: str
    path: str
    """Regular expression that is found in the path."""
    times: int = 1


def fault_of(faults: list[Fault], request: web.Request) -> Fault | None:
    """The fault of a request, which has happened once more."""
    for fault in faults:
        if fault.method == request.method and re.search(fault.path, request.path):
            fault.times -= 1
            if not fault.times:
                faults.remove(fault)
            return fault
    return None


async def evict(there: "Cluster", name: str, message: str) -> None:
    """What a kubelet does to a pod when its node runs short of something."""
    await there.kubelet.evict(there.store.get("pods", name), message)


def restart(there: "Cluster", name: str) -> None:
    """What a kubelet notes when it has started a container again."""
    pod = there.store.get("pods", name)
    (status,) = pod["status"]["containerStatuses"]
    status["restartCount"] += 1
    there.store.touch(pod)


def condemn(there: "Cluster", name: str) -> None:
    """What a control plane notes of a pod whose node it does not hear any more."""
    pod = there.store.get("pods", name)
    pod["metadata"]["deletionTimestamp"] = now()
    there.store.touch(pod)


def erase(there: "Cluster", name: str) -> None:
    """Remove a pod's object by force, which ends none of its processes."""
    there.store.remove("pods", there.store.get("pods", name))
