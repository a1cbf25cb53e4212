"""Watches: what happened to objects from a version on, one line each, until the time is over."""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from aiohttp import web

from executor_service.backends.kubernetes.reading import Json, part
from tests.fakes.kubernetes.errors import status_of

_BOOKMARK_EVERY_S = 0.5


@dataclass(frozen=True)
class Event:
    """One change; the object as it was then."""

    version: int
    kind: str
    resource: str
    thing: Json


class Watches:
    """What has happened in a cluster, as long as it is kept, and who follows it."""

    def __init__(self) -> None:
        self.served = 0
        """Requests that were answered with events."""
        self._kept: deque[Event] = deque()
        self._forgotten = 0
        """Version up to which nothing is kept."""
        self._happened = asyncio.Event()
        self._open: dict[int, web.Request] = {}

    def note(self, kind: str, resource: str, thing: Json) -> None:
        """Keep that an object was ADDED, MODIFIED or DELETED."""
        version = int(thing["metadata"]["resourceVersion"])
        self._kept.append(Event(version, kind, resource, deepcopy(thing)))
        self._happened.set()
        self._happened = asyncio.Event()

    def forget(self) -> None:
        """Keep nothing of what has happened, as etcd does when it is compacted."""
        if self._kept:
            self._forgotten = self._kept[-1].version
        self._kept.clear()

    @property
    def open_count(self) -> int:
        """How many are followed now."""
        return len(self._open)

    def cut(self) -> int:
        """Break every watch as a load balancer would."""
        requests, self._open = self._open, {}
        for request in requests.values():
            if request.transport is not None:
                request.transport.abort()
        return len(requests)

    async def serve(
        self, request: web.Request, resource: str, latest: Callable[[], str]
    ) -> web.StreamResponse:
        """Answer a request with `watch`."""
        since = int(request.query["resourceVersion"])
        lasts_s = float(request.query.get("timeoutSeconds", "1800"))
        wanted = [each.partition("=") for each in request.query["labelSelector"].split(",")]
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.served += 1
        self._open[id(request)] = request
        try:
            async with asyncio.timeout(lasts_s):
                while since >= self._forgotten:
                    happened = self._happened
                    for event in self._after(since, resource, wanted):
                        await _send(response, event.kind, event.thing)
                        since = event.version
                    if not await _comes(happened):
                        since = max(since, int(latest()))
                        await _send(response, "BOOKMARK", _bookmark(since))
                gone = status_of(410, f"too old resource version: {since}")
                await _send(response, "ERROR", gone)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._open.pop(id(request), None)
        return response

    def _after(
        self, version: int, resource: str, wanted: list[tuple[str, str, str]]
    ) -> list[Event]:
        def is_wanted(thing: Json) -> bool:
            labels = part(thing, "metadata", "labels")
            return all(labels.get(name) == value for name, _, value in wanted)

        return [
            event
            for event in self._kept
            if event.version > version and event.resource == resource and is_wanted(event.thing)
        ]


async def _comes(happened: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(_BOOKMARK_EVERY_S):
            return await happened.wait()
    except TimeoutError:
        return False


def _bookmark(version: int) -> Json:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}


async def _send(response: web.StreamResponse, kind: str, thing: Json) -> None:
    await response.write(json.dumps({"type": kind, "object": thing}).encode() + b"\n")
