"""The node: each pod is a container of the local Docker engine, walled in as its spec says."""

import asyncio
import base64
import itertools
import shutil
from pathlib import Path
from typing import Any

from executor_service.backends.docker.engine import Connection, Engine, EngineAddress
from executor_service.backends.kubernetes.api import Json, part
from executor_service.errors import EngineRefused
from tests.fakes.kubernetes.errors import Refused
from tests.fakes.kubernetes.eviction import LOOK_S, why_too_large
from tests.fakes.kubernetes.store import Store, now

LABEL = "org.hermes.test.cluster"
POD_PIDS_LIMIT = 64
"""What `podPidsLimit` of a real node's configuration is."""
_OF_THE_API_SERVER = ("KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_PORT=tcp://10.96.0.1:443")
"""Variables of every container, also without service links."""
_FOREVER_S = 1e6
_MOUNT_AGAIN_S = 0.1


class Kubelet:
    """Runs the pods of one cluster."""

    def __init__(self, store: Store, folder: Path, cluster: str) -> None:
        self._store = store
        self._folder = folder
        self._cluster = cluster
        self.engine = Engine(EngineAddress())
        self._containers: dict[str, str] = {}
        self._addresses = itertools.cycle(range(1, 255))
        self._out_of_memory: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, pod: Json) -> None:
        """Start a pod that was admitted."""
        pod["status"] = {"phase": "Pending", "qosClass": _quality(pod["spec"]), "conditions": []}
        self._in_background(self._run(pod))

    def container_of(self, pod: Json) -> str:
        """The running container of a pod; Refused if it has none."""
        container = self._containers.get(pod["metadata"]["uid"])
        if container is None:
            raise Refused(500, 'container not found ("sandbox")')
        return container

    async def end(self, pod: Json) -> None:
        """Kill a pod's processes; returns when they are gone."""
        container = self._containers.pop(pod["metadata"]["uid"], None)
        if container is not None:
            await self.engine.ask("DELETE", f"/containers/{container}?force=1")
        await asyncio.to_thread(shutil.rmtree, self._volumes(pod), ignore_errors=True)

    async def evict(self, pod: Json, message: str) -> None:
        """End a pod, whose object stays and says why."""
        pod["status"].update(phase="Failed", reason="Evicted", message=message)
        self._store.touch(pod)
        await self.end(pod)

    async def exhaust(self, pod: Json) -> None:
        """What a kernel does to all of a container whose control group ends as one."""
        container = self.container_of(pod)
        self._out_of_memory.add(container)
        await self.engine.ask("POST", f"/containers/{container}/kill")

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for container in list(self._containers.values()):
            await self.engine.ask("DELETE", f"/containers/{container}?force=1")
        await self.engine.close()

    def _in_background(self, job: Any) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pod: Json) -> None:
        spec, uid = pod["spec"], pod["metadata"]["uid"]
        if spec.get("nodeSelector"):
            message = "0/1 nodes are available: 1 node(s) didn't match Pod's node selector."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self._note(pod, conditions=[{**condition, "message": message}])
            return
        image = spec["containers"][0]["image"]
        try:
            await self.engine.ask("GET", f"/images/{image}/json")
        except EngineRefused:
            message = f'Back-off pulling image "{image}"'
            self._state(pod, {"waiting": {"reason": "ImagePullBackOff", "message": message}})
            return
        while missing := self._missing(spec):
            message = f'configmap "{missing}" not found'
            self._state(pod, {"waiting": {"reason": "ContainerCreating", "message": message}})
            await asyncio.sleep(_MOUNT_AGAIN_S)
        wanted = await asyncio.to_thread(self._container, pod)
        name = f"{self._cluster}-{uid}"
        try:
            made = await self.engine.ask("POST", f"/containers/create?name={name}", wanted)
            self._containers[uid] = made["Id"]
            await self.engine.ask("POST", f"/containers/{made['Id']}/start")
        except EngineRefused as error:
            waiting = {"reason": "RunContainerError", "message": str(error)}
            self._state(pod, {"waiting": waiting})
            return
        ready = {"type": "Ready", "status": "True"}
        address = f"10.0.0.{next(self._addresses)}"
        self._note(pod, phase="Running", conditions=[ready], podIPs=[{"ip": address}])
        self._state(pod, {"running": {"startedAt": now()}})
        self._in_background(self._hold_to_sizes(pod))
        await self._watch(pod, made["Id"])

    async def _hold_to_sizes(self, pod: Json) -> None:
        while pod["metadata"]["uid"] in self._containers:
            if why := await asyncio.to_thread(why_too_large, pod, self._volumes(pod)):
                await self.evict(pod, why)
            await asyncio.sleep(LOOK_S)

    async def _watch(self, pod: Json, container: str) -> None:
        try:
            path = f"/containers/{container}/wait"
            code = (await self.engine.ask("POST", path, deadline_s=_FOREVER_S))["StatusCode"]
        except EngineRefused:
            code = 137
        if pod["status"]["phase"] == "Running":
            self._note(pod, phase="Failed" if code else "Succeeded")
        reason = "Error" if code else "Completed"
        if container in self._out_of_memory:
            reason = "OOMKilled"
        self._state(pod, {"terminated": {"exitCode": code, "reason": reason}})

    def _note(self, pod: Json, **status: Any) -> None:
        pod["status"].update(status)
        self._store.touch(pod)

    def _state(self, pod: Json, state: Json) -> None:
        container = pod["spec"]["containers"][0]
        known = {"name": container["name"], "image": container["image"], "restartCount": 0}
        self._note(pod, containerStatuses=[{**known, "ready": "running" in state, "state": state}])

    def _missing(self, spec: Json) -> str:
        """A ConfigMap that a pod cannot start without."""
        there = {each["metadata"]["name"] for each in self._store.select("configmaps")}
        wanted = [part(each, "configMap").get("name") for each in spec["volumes"]]
        return next((name for name in wanted if name and name not in there), "")

    def _volumes(self, pod: Json) -> Path:
        return self._folder / "pods" / pod["metadata"]["uid"]

    def _container(self, pod: Json) -> Json:
        """What the engine is asked for."""
        spec = pod["spec"]
        container, context = spec["containers"][0], spec["securityContext"]
        limits = container["resources"]["limits"]
        binds, tmpfs = self._mounts(pod)
        return {
            "Image": container["image"],
            "Entrypoint": container["command"],
            "Env": [
                *_OF_THE_API_SERVER,
                *(f"{each['name']}={each['value']}" for each in container.get("env") or ()),
            ],
            "User": f"{context['runAsUser']}:{context['runAsGroup']}",
            "WorkingDir": container["workingDir"],
            "Hostname": spec.get("hostname", pod["metadata"]["name"]),
            "Labels": {LABEL: self._cluster},
            "HostConfig": {
                "NetworkMode": "none",
                "Dns": spec["dnsConfig"]["nameservers"],
                "IpcMode": "none",
                "LogConfig": {"Type": "none"},
                "CapDrop": container["securityContext"]["capabilities"]["drop"],
                "SecurityOpt": ["no-new-privileges"],
                "ReadonlyRootfs": container["securityContext"]["readOnlyRootFilesystem"],
                "Binds": binds,
                "Tmpfs": tmpfs,
                "Memory": int(limits["memory"]),
                "MemorySwap": int(limits["memory"]),
                "NanoCpus": int(limits["cpu"].removesuffix("m")) * 1_000_000,
                "PidsLimit": POD_PIDS_LIMIT,
            },
        }

    def _mounts(self, pod: Json) -> tuple[list[str], dict[str, str]]:
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        group = pod["spec"]["securityContext"].get("fsGroup")
        binds: list[str] = []
        tmpfs: dict[str, str] = {}
        for mount in pod["spec"]["containers"][0]["volumeMounts"]:
            volume, path = volumes[mount["name"]], mount["mountPath"]
            empty = volume.get("emptyDir", {})
            if empty.get("medium") == "Memory":
                mode = "2777" if group else "0755"
                tmpfs[path] = f"rw,exec,mode={mode},size={empty['sizeLimit']}"
                continue
            folder = self._folder_of(pod, volume) / mount.get("subPath", "")
            if not folder.is_file():
                folder.mkdir(parents=True, exist_ok=True)
            if group and folder.is_dir():
                # Of which a kubelet makes the group its owner; here not everyone may.
                folder.chmod(0o2777)
            binds.append(f"{folder}:{path}{':ro' if mount.get('readOnly') else ''}")
        return binds, tmpfs

    def _folder_of(self, pod: Json, volume: Json) -> Path:
        if claim := volume.get("persistentVolumeClaim"):
            return self._folder / "claims" / claim["claimName"]
        folder = self._volumes(pod) / volume["name"]
        folder.mkdir(parents=True)
        if source := volume.get("configMap"):
            found = self._store.get("configmaps", source["name"])
            for name, content in part(found, "binaryData").items():
                (folder / name).write_bytes(base64.b64decode(content))
                (folder / name).chmod(source.get("defaultMode", 0o644))
        return folder


async def start_in(engine: Engine, container: str, command: list[str]) -> tuple[str, Connection]:
    """Start a command in a container; the exec's id and the open line to its streams."""
    asked = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Cmd": command}
    made = await engine.ask("POST", f"/containers/{container}/exec", asked)
    line = await Connection.open(engine.address, None)
    start = {"Detach": False, "Tty": False}
    headers = ("Connection: Upgrade", "Upgrade: tcp")
    await line.send("POST", f"/exec/{made['Id']}/start", start, *headers)
    return made["Id"], line


def _quality(spec: Json) -> str:
    container: Json = spec["containers"][0]
    requests, limits = (part(container, "resources", kind) for kind in ("requests", "limits"))
    same = all(name in limits and requests.get(name) == limits[name] for name in ("cpu", "memory"))
    return "Guaranteed" if same else "Burstable"
