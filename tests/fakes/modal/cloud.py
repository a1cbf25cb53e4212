"""What an account of Modal has: files, volumes and sandboxes; and what is to go wrong."""

import asyncio
import base64
import hashlib
import json
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from grpclib import GRPCError, Status
from grpclib.events import RecvRequest
from modal_proto import api_pb2

from tests.fakes.modal.machine import Machine

TOKEN = ("ak-test", "as-test-secret")


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sandbox with what it was given to be found by."""

    machine: Machine
    app_id: str
    tags: dict[str, str]
    created_at: float
    jwt: str


@dataclass(slots=True)
class Fault:
    """How often a call is to fail, and how."""

    status: Status
    times: int
    does_it_all_the_same: bool


@dataclass(slots=True)
class Cloud:
    """The state of the server, in one folder."""

    folder: Path
    url: str = ""
    sandboxes: dict[str, Tagged] = field(default_factory=dict[str, Tagged])
    mounts: dict[str, Path] = field(default_factory=dict[str, Path])
    volumes: dict[str, Path] = field(default_factory=dict[str, Path])
    answered: dict[str, api_pb2.SandboxCreateV2Response] = field(
        default_factory=dict[str, api_pb2.SandboxCreateV2Response]
    )
    faults: dict[str, Fault] = field(default_factory=dict[str, Fault])
    called: Counter[str] = field(default_factory=Counter[str])

    async def check(self, event: RecvRequest) -> None:
        """Let a call in, unless its credentials are wrong or it is to fail."""
        service, name = event.method_name.split("/")[1:]
        self.called[name] += 1
        token = (event.metadata.get("x-modal-token-id"), event.metadata.get("x-modal-token-secret"))
        if service == "modal.client.ModalClient" and token != TOKEN:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed or does not exist")
        fault = self.faults.get(name)
        if fault is not None and fault.times > 0 and not fault.does_it_all_the_same:
            fault.times -= 1
            raise GRPCError(fault.status, "out of order")

    def fails_afterwards(self, name: str) -> None:
        """Lose the answer to a call that was done, if that is to be."""
        fault = self.faults.get(name)
        if fault is not None and fault.times > 0 and fault.does_it_all_the_same:
            fault.times -= 1
            raise GRPCError(fault.status, "out of order")

    def blob(self, digest: str) -> Path:
        """Where the content of a file lies."""
        return self.folder / "blobs" / digest

    def mount(self, files: list[api_pb2.MountFile]) -> str:
        """A folder with these files, of which each was sent before."""
        names = [f"{file.filename} {file.sha256_hex}" for file in files]
        ident = "mo-" + hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:22]
        root = self.folder / "mounts" / ident
        for file in files:
            target = root / file.filename.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.blob(file.sha256_hex).read_bytes())
        self.mounts[ident] = root
        return ident

    def volume(self, name: str, *, make: bool) -> str:
        """The id of a volume, made if it is not there and may be."""
        ident = "vo-" + hashlib.sha256(name.encode()).hexdigest()[:22]
        if not make and ident not in self.volumes:
            raise GRPCError(Status.NOT_FOUND, f"Volume {name} not found")
        self.volumes[ident] = self.folder / "volumes" / name
        self.volumes[ident].mkdir(parents=True, exist_ok=True)
        return ident

    async def create(self, request: api_pb2.SandboxCreateV2Request) -> Tagged:
        """Start a sandbox."""
        ident = f"sb-{uuid.uuid4().hex}"
        wanted = request.definition
        folders: dict[str, Path] = {}
        for mount_id in wanted.mount_ids:
            for top in self.mounts[mount_id].glob("*/*"):
                folders[str("/" / top.relative_to(self.mounts[mount_id]))] = top
        folders |= {
            mount.mount_path: self.volumes[mount.volume_id] for mount in wanted.volume_mounts
        }
        machine = Machine(ident, wanted, folders)
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        made = Tagged(machine, request.app_id, tags, time.time(), jwt(machine.task_id))
        self.sandboxes[ident] = made
        # It goes on when whoever asked has left.
        await asyncio.shield(machine.start())
        return made

    def find(self, sandbox_id: str) -> Tagged:
        """A sandbox, living or not."""
        if sandbox_id not in self.sandboxes:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox_id} not found")
        return self.sandboxes[sandbox_id]

    def living(self) -> list[Tagged]:
        """Those that run, latest first."""
        running = [one for one in self.sandboxes.values() if one.machine.result is None]
        return sorted(running, key=lambda one: one.created_at, reverse=True)


def jwt(subject: str) -> str:
    """A token that says when it ends, and is signed by nobody."""
    parts = [{"alg": "none"}, {"sub": subject, "exp": int(time.time()) + 3600}, {}]
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


def volume_entries(root: Path, recursive: bool) -> list[api_pb2.FileEntry]:
    """What is in a volume."""
    return [
        api_pb2.FileEntry(
            path=str(path.relative_to(root)),
            type=api_pb2.FileEntry.DIRECTORY if path.is_dir() else api_pb2.FileEntry.FILE,
            size=path.lstat().st_size,
        )
        for path in (root.rglob("*") if recursive else root.glob("*"))
    ]
