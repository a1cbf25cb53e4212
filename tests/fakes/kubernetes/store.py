"""The objects of a cluster's one namespace."""

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime

from executor_service.backends.kubernetes.api import Json, part, parts
from tests.fakes.kubernetes.errors import Refused

KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "networkpolicies": "NetworkPolicy"}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_selected(thing: Json, selector: str) -> bool:
    wanted = [label.partition("=") for label in selector.split(",") if label]
    labels = part(thing, "metadata", "labels")
    return all(labels.get(name) == value for name, _, value in wanted)


class Store:
    """What etcd keeps, and its garbage collector."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._things: dict[str, dict[str, Json]] = {resource: {} for resource in KINDS}
        self._versions = itertools.count(1)
        self.watchers: set[asyncio.Queue[tuple[str, str, Json] | None]] = set()
        """Who hears of every change: resource, kind of change, object. None ends a watch."""

    @property
    def version(self) -> str:
        return str(next(self._versions))

    def complete(self, resource: str, thing: Json) -> Json:
        """The object with what the server adds; Refused where another has its name."""
        metadata = thing["metadata"]
        name = metadata["name"]
        if metadata.setdefault("namespace", self._namespace) != self._namespace:
            raise Refused(400, "the namespace of the object does not match that of the request")
        if name in self._things[resource]:
            raise Refused(409, f'{resource} "{name}" already exists')
        metadata["uid"] = str(uuid.uuid4())
        metadata["resourceVersion"] = self.version
        metadata["creationTimestamp"] = now()
        return thing

    def add(self, resource: str, thing: Json) -> Json:
        self._things[resource][thing["metadata"]["name"]] = thing
        thing["metadata"].setdefault("resourceVersion", self.version)
        self._tell("ADDED", resource, thing)
        return thing

    def get(self, resource: str, name: str) -> Json:
        found = self._things[resource].get(name)
        if found is None:
            raise Refused(404, f'{resource} "{name}" not found')
        return found

    def select(self, resource: str, selector: str = "") -> list[Json]:
        return [thing for thing in self._things[resource].values() if is_selected(thing, selector)]

    def touch(self, thing: Json) -> None:
        """Note that an object has changed."""
        thing["metadata"]["resourceVersion"] = self.version
        for resource, things in self._things.items():
            if things.get(thing["metadata"]["name"]) is thing:
                self._tell("MODIFIED", resource, thing)

    def _tell(self, kind: str, resource: str, thing: Json) -> None:
        for watcher in self.watchers:
            watcher.put_nowait((resource, kind, deepcopy(thing)))

    def remove(self, resource: str, thing: Json) -> list[Json]:
        """Removes it and what it owns; the pods that must end with it."""
        metadata = thing["metadata"]
        if self._things[resource].get(metadata["name"]) is thing:
            del self._things[resource][metadata["name"]]
            self._tell("DELETED", resource, thing)
        pods: list[Json] = []
        for kind, owned in list(self._owned_by(metadata["uid"])):
            if kind == "pods":
                pods.append(owned)
            else:
                pods += self.remove(kind, owned)
        return pods

    def _owned_by(self, uid: str) -> Iterator[tuple[str, Json]]:
        for resource, things in self._things.items():
            for thing in things.values():
                owners = parts(thing, "metadata", "ownerReferences")
                if any(owner["uid"] == uid for owner in owners):
                    yield resource, thing
