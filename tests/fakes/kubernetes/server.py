"""The API server: who may do what, what is admitted, and what can be made to go wrong."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from executor_service.backends.kubernetes.api import Json, part
from tests.fakes.kubernetes.admission import VERSION, admit, validate
from tests.fakes.kubernetes.errors import Refused
from tests.fakes.kubernetes.execs import Execs
from tests.fakes.kubernetes.faults import Fault, fault_of
from tests.fakes.kubernetes.kubelet import Kubelet
from tests.fakes.kubernetes.rights import Rights
from tests.fakes.kubernetes.store import KINDS, Store, is_selected, now


async def _write_event(answer: web.StreamResponse, kind: str, thing: Json) -> None:
    await answer.write(json.dumps({"type": kind, "object": thing}).encode() + b"\n")


CORE = "/api/v1/namespaces/{namespace}"
NETWORKING = "/apis/networking.k8s.io/v1/namespaces/{namespace}"
_RESOURCE = "{resource:pods|configmaps}"
_GROUPS = {"networkpolicies": "networking.k8s.io"}


@dataclass
class Cluster:
    """One namespace of a cluster, its node, and the rights of the one account that there is."""

    rights: Rights
    folder: Path
    faults: list[Fault] = field(default_factory=list[Fault])
    quota: int = 1000
    """Pods that there may be."""
    is_away: bool = False
    """Whether connections break without an answer."""
    seen: list[str] = field(default_factory=list[str])
    """Every request's method and path."""

    def __post_init__(self) -> None:
        self.name = f"hermes-test-{secrets.token_hex(4)}"
        self.store = Store(self.rights.namespace)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[web.Application]:
        """The application, with a node for the time of the block."""
        self.kubelet = Kubelet(self.store, self.folder, self.name)
        self.execs = Execs(self.kubelet)
        self._ending: set[asyncio.Task[None]] = set()
        self._lines: set[asyncio.Transport] = set()
        app = web.Application(middlewares=[self._guard], client_max_size=4 * 1024 * 1024)
        app.add_routes(
            [
                web.get("/version/", self._version),
                web.get(f"{CORE}/pods/{{name}}/exec", self._exec),
                *self._collection(f"{CORE}/{_RESOURCE}"),
                *self._collection(f"{NETWORKING}/{{resource:networkpolicies}}"),
            ]
        )
        try:
            yield app
        finally:
            await asyncio.gather(*self._ending, return_exceptions=True)
            await self.kubelet.close()
            for line in self._lines:
                line.abort()
            # Which TLS does in two steps.
            await asyncio.sleep(0.01)

    def _collection(self, path: str) -> list[web.RouteDef]:
        return [
            web.get(path, self._list),
            web.post(path, self._create),
            web.get(f"{path}/{{name}}", self._read),
            web.delete(f"{path}/{{name}}", self._delete),
        ]

    def drop(self, resource: str, name: str) -> None:
        """Remove an object, and with it what it owns."""
        self._end(self.store.remove(resource, self.store.get(resource, name)))

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path}")
        if request.transport is not None:
            self._lines.add(request.transport)
            if self.is_away:
                request.transport.abort()
        try:
            self.rights.check(request, _GROUPS.get(request.match_info.get("resource", ""), ""))
            fault = fault_of(self.faults, request)
            if fault is not None:
                return Refused(fault.code, "made to fail").response()
            return await handler(request)
        except Refused as refused:
            return refused.response()

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"gitVersion": f"v{VERSION}.0-standin", "platform": "linux/amd64"})

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        pod = self.store.get("pods", request.match_info["name"])
        if pod["status"]["phase"] in {"Failed", "Succeeded"}:
            phase = pod["status"]["phase"]
            raise Refused(400, f"cannot exec into a completed pod; current phase is {phase}")
        return await self.execs.serve(request, pod)

    def end_watches(self) -> None:
        """What a server does now and then."""
        for watcher in self.store.watchers:
            watcher.put_nowait(None)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        resource, selector = request.match_info["resource"], request.query["labelSelector"]
        watcher: asyncio.Queue[tuple[str, str, Json] | None] = asyncio.Queue()
        self.store.watchers.add(watcher)
        answer = web.StreamResponse()
        try:
            await answer.prepare(request)
            for thing in self.store.select(resource, selector):
                # Some of these may be old news, which a client must take.
                await _write_event(answer, "MODIFIED", thing)
            while (news := await watcher.get()) is not None:
                if news[0] == resource and is_selected(news[2], selector):
                    await _write_event(answer, news[1], news[2])
        except ConnectionError:
            pass
        finally:
            self.store.watchers.discard(watcher)
        return answer

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await self._watch(request)
        resource = request.match_info["resource"]
        items = self.store.select(resource, request.query.get("labelSelector", ""))
        version = {"resourceVersion": self.store.version}
        kind = f"{KINDS[resource]}List"
        return web.json_response(
            {"kind": kind, "apiVersion": "v1", "metadata": version, "items": items}
        )

    async def _read(self, request: web.Request) -> web.Response:
        info = request.match_info
        return web.json_response(self.store.get(info["resource"], info["name"]))

    async def _create(self, request: web.Request) -> web.Response:
        resource = request.match_info["resource"]
        thing = await request.json()
        await asyncio.to_thread(validate, thing)
        if resource == "pods":
            admit(thing)
            if len(self.store.select("pods")) >= self.quota:
                name = thing["metadata"]["name"]
                raise Refused(403, f'pods "{name}" is forbidden: exceeded quota: boxes')
        thing = self.store.complete(resource, deepcopy(thing))
        if request.query.get("dryRun") != "All":
            self.store.add(resource, thing)
            if resource == "pods":
                self.kubelet.run(thing)
        return web.json_response(thing, status=201)

    async def _delete(self, request: web.Request) -> web.Response:
        info = request.match_info
        thing = self.store.get(info["resource"], info["name"])
        options: Json = await request.json() if request.can_read_body else {}
        for name, wanted in part(options, "preconditions").items():
            if wanted != thing["metadata"][name]:
                raise Refused(409, f"the {name} in the precondition does not match the object's")
        if info["resource"] == "pods" and options.get("gracePeriodSeconds", 30):
            if "deletionTimestamp" not in thing["metadata"]:
                thing["metadata"]["deletionTimestamp"] = now()
                self.store.touch(thing)
                self._end([thing])
        else:
            # Without grace the object goes at once, and nobody waits for its processes.
            self._end([thing] if info["resource"] == "pods" else [])
            self._end(self.store.remove(info["resource"], thing))
        return web.json_response(thing)

    def _end(self, pods: list[Json]) -> None:
        async def end() -> None:
            for pod in pods:
                await self.kubelet.end(pod)
                self._end(self.store.remove("pods", pod))

        if not pods:
            return
        task = asyncio.get_running_loop().create_task(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
