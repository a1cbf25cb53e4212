"""Two profiles on one Hermes: ann, who has one of everything, and bob, who wants to see it."""

import asyncio
import hashlib
import importlib
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, cast

import grpc.aio
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from prometheus_client import CollectorRegistry

from agent_service import app as agent_app
from executor_service import app as executor_app
from gateway_service import app as gateway_app
from scheduler_service import app as scheduler_app
from services.config.settings import load_settings
from services.lifecycle import Workers
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity, new_tokens
from services.rpc.channels import Channels
from services.rpc.streams import open_stream
from services.runtime.component import Component
from services.runtime.server import ListenOptions, Server
from services.telemetry.metrics import Meter
from tests.fakes.model import call
from tests.support.executors import end_boxes
from tests.unit.services.descriptors import methods

ANN, BOB = "ann", "bob"
CANARY = "Otterburg"
CANARY_DIGEST = hashlib.sha256(CANARY.encode()).digest()
"""Stands in everything that ann has."""
METHODS = {name.replace("hermes.", "")[1:].replace(".v1.", "."): m for name, m in methods().items()}
"""Every RPC by a name such as `agent.TurnService/GetTurn`."""
NEW_SESSION = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b")
BUILDS = {
    "agent": agent_app.build,
    "executor": executor_app.build,
    "gateway": gateway_app.build,
    "scheduler": scheduler_app.build,
}
Fields = Mapping[str, Any]
"""A message as JSON."""
Things = Mapping[str, str]
"""The ids of what somebody has, by the fields that name them."""


SCRIPT = {
    "rules": [
        {"user": "danger", "steps": [call("terminal", command=f"rm -rf {CANARY}"), {"text": "x"}]},
        {"user": "which", "steps": [call("clarify", question=f"{CANARY}?"), {"text": "x"}]},
        {"steps": [{"text": f"So {CANARY} it is."}]},
    ]
}
CONFIG = (
    "approvals: {mode: manual, sandboxed: ask}\n"
    "models: {scripted: {price: {input: 0, output: 0}}}\n"
)
"""With a price, so that a budget in dollars lets the model be asked."""

_OF_ANN = {
    "session_id": "session-of-ann",
    "turn_id": "turn-of-ann",
    "waiting_session": "waiting-of-ann",
    "waiting_turn": "waiting-turn-of-ann",
    "asking_session": "asking-of-ann",
    "change_id": "change-of-ann",
    "job_id": "job-of-ann",
    "exec_id": "exec-of-ann",
    "delivery_id": "delivery-of-ann",
    "message_id": "message-of-ann",
    "request": "request-of-ann",
    "skill": "otterburg-walks",
}
_OF_LEASES = ("sandbox_id", "token", "epoch")
_GIVEN = ("approval_id", "clarification_id", "run_id", "sandbox_id", "workspace_id", "snapshot_id")
NOTHING = {name: f"none_{name}" for name in (*_OF_ANN, *_GIVEN)} | {"token": "0" * 64}
"""What nobody has."""


def hidden(things: Things, text: str) -> str:
    """A text without ids, to be compared."""
    for each in sorted(things.values(), key=len, reverse=True):
        text = text.replace(each, "<id>")
    return NEW_SESSION.sub("<id>", text)


def filled(shape: Descriptor, fields: Fields, things: Things, profile: str) -> Fields:
    """The fields of a message with somebody's ids in those that are not given."""
    names = shape.fields_by_name
    lease = {"epoch": 1, **{name: things[name] for name in _OF_LEASES if name in things}}
    known = {**things, "profile": profile, "lease": lease}
    full: dict[str, Any] = {name: known[name] for name in known if name in names}
    for name, value in fields.items():
        inner = names[name].message_type
        if isinstance(value, dict) and inner is not None:
            full[name] = filled(inner, cast("Fields", value), things, profile)
        elif isinstance(value, list):
            full[name] = [_substituted(each, things) for each in cast("list[Any]", value)]
        else:
            full[name] = _substituted(value, things)
    return full


def _substituted(value: Any, things: Things) -> Any:
    if isinstance(value, dict):
        named = cast("Fields", value).items()
        return {name: _substituted(inner, things) for name, inner in named}
    return Template(value).substitute(things) if isinstance(value, str) else value


def service_of(method: str) -> str:
    """Who serves an RPC."""
    return method.partition(".")[0]


async def answers(
    channel: grpc.aio.Channel, method: str, messages: Sequence[Fields], things: Things, profile: str
) -> AsyncIterator[Any]:
    """Call an RPC for a profile, with somebody's ids wherever messages do not give others."""
    described = METHODS[method]
    shape, service = described.input_type, described.containing_service
    made = [
        ParseDict(dict(filled(shape, fields, things, profile)), GetMessageClass(shape)())
        for fields in messages
    ]
    file = service.file.name.removesuffix(".proto").replace("/", ".")
    stub = getattr(importlib.import_module(f"{file}_pb2_grpc"), f"{service.name}Stub")
    given = _each(made) if described.client_streaming else made[0]
    call = getattr(stub(channel), described.name)(given, timeout=60)
    if not described.server_streaming:
        yield await call
        return
    async with open_stream(call):
        async for answer in call:
            yield answer


async def _each(requests: Sequence[Message]) -> AsyncIterator[Message]:
    for request in requests:
        yield request


@dataclass(frozen=True, slots=True)
class Household:
    """Services that serve both, and how somebody calls them."""

    channels: Mapping[Identity, Channels]
    things: Things


@asynccontextmanager
async def household(
    home: Path, model_url: str, database_url: str = ""
) -> AsyncGenerator[Household]:
    """Run all services for two people, one of whom has been busy.

    With a database all that they have is in it, profiles too.
    """
    environ = {
        "HERMES_HOME": str(home),
        "HERMES_BASE_URL": model_url,
        "HERMES_MODEL": "m",
        "HERMES_SKILLS_BUNDLED": "false",
        "HERMES_BACKEND": "bubblewrap",
        "HERMES_WARM_POOL_SIZE": "0",
        "HERMES_KEEP_SANDBOXES": "false",
    }
    if database_url:
        environ |= {"HERMES_DATABASE_URL": database_url, "HERMES_PROFILES_STORE": "database"}
    await asyncio.to_thread((home / "config.yaml").write_text, CONFIG)
    settings = await asyncio.to_thread(load_settings, {}, environ)
    await asyncio.to_thread(settings.home.create)
    socket, tokens = UnixAddress(settings.home.socket), new_tokens()
    try:
        async with AsyncExitStack() as stack:
            channels: dict[Identity, Channels] = {}
            for identity in Identity:
                addresses = dict.fromkeys(BUILDS, socket)
                one = Channels(identity, addresses, token=tokens[identity])
                channels[identity] = await stack.enter_async_context(one)
            components: list[Component] = [
                build(settings, channels[Identity(name)], Meter(CollectorRegistry()))
                for name, build in BUILDS.items()
            ]
            server = Server(components, ListenOptions((socket,), tokens=tokens))
            await stack.enter_async_context(server)
            for component in components:
                await stack.enter_async_context(component)
            workers = await stack.enter_async_context(Workers())
            await server.start()
            for component in components:
                workers.start(component.name, component.run())
            yield Household(channels, await _Ann(channels).things())
            for component in components:
                await component.drain()
    finally:
        await end_boxes(settings)


def _bytes(data: bytes) -> str:
    return b64encode(data).decode()


class _Ann:
    """Gets ann one of everything, and bob something of his own."""

    def __init__(self, channels: Mapping[Identity, Channels]) -> None:
        self._channels = channels

    async def _ask(
        self, method: str, *messages: Fields, by: Identity = Identity.OPERATOR, **fields: Any
    ) -> Any:
        """The last answer."""
        channel = self._channels[by].to(service_of(method))
        called = answers(channel, method, messages or (fields,), {}, ANN)
        return [answer async for answer in called][-1]

    async def things(self) -> Things:
        """Everything."""
        of = _OF_ANN
        await self._turn("hello", of["turn_id"], of["session_id"], "turn_finished")
        approval = await self._turn(
            "danger", of["waiting_turn"], of["waiting_session"], "approval_requested"
        )
        question = await self._turn(
            "which", "asking-turn-of-ann", of["asking_session"], "clarification_requested"
        )
        await self._ask(
            "gateway.ConversationService/Converse",
            {"open": {"session_id": of["session_id"]}},
            {"user_message": {"message_id": of["message_id"], "text": CANARY}},
        )
        await self._furnish()
        run_id = await self._job()
        sandbox = await self._sandbox()
        await self._spend()
        await self._deliver()
        return {
            **of,
            "approval_id": approval.approval_id,
            "clarification_id": question.clarification_id,
            "run_id": run_id,
            **sandbox,
        }

    async def _turn(self, text: str, turn_id: str, session_id: str, kind: str) -> Any:
        """Begin a turn; its first event of a kind."""
        await self._ask(
            "agent.TurnService/StartTurn",
            turn_id=turn_id,
            session_id=session_id,
            parts=[{"text": f"{text} {CANARY}"}],
            origin={"platform": "cli"},
        )
        watched = ({"turn_id": turn_id},)
        agent = self._channels[Identity.OPERATOR].to("agent")
        async for message in answers(agent, "agent.TurnService/WatchTurn", watched, {}, ANN):
            for event in message.events:
                if event.WhichOneof("kind") == kind:
                    return getattr(event, kind)
        raise AssertionError(f"{turn_id} ended without {kind}")

    async def _furnish(self) -> None:
        skill = f"---\nname: {_OF_ANN['skill']}\ndescription: {CANARY}\n---\nGo."
        files = {(ANN, f"skills/{_OF_ANN['skill']}/SKILL.md"): skill, (BOB, "SOUL.md"): "Be bob's."}
        taken = await self._ask(
            "agent.HomeService/ImportHome",
            *(
                {"file": {"profile": profile, "path": path}, "data": _bytes(text.encode())}
                for (profile, path), text in files.items()
            ),
            {"finish": True},
        )
        assert taken.added_count == len(files)
        await self._ask(
            "agent.MemoryService/ApplyMemory",
            request_id=_OF_ANN["change_id"],
            target="MEMORY_TARGET_USER",
            operations=[{"action": "MEMORY_ACTION_ADD", "content": f"Lives in {CANARY}."}],
        )

    async def _spend(self) -> None:
        for scope, scope_id in (("PROFILE", ""), ("SESSION", _OF_ANN["session_id"])):
            await self._ask(
                "agent.UsageService/SetBudget",
                scope=f"BUDGET_SCOPE_{scope}",
                scope_id=scope_id,
                limit={"micro_usd": 77_777_777},
            )

    async def _job(self) -> str:
        """Make a job that has run once and goes on; its run."""
        for job_id, schedule in ((_OF_ANN["job_id"], "in 1 second"), ("later", "every 24 hours")):
            job = {"job_id": job_id, "schedule": schedule, "prompt": CANARY, "name": CANARY}
            await self._ask("scheduler.JobService/CreateJob", job=job)
        async with asyncio.timeout(20):
            while True:
                listed = await self._ask("scheduler.JobService/ListRuns", job_id=_OF_ANN["job_id"])
                if listed.runs and listed.runs[0].output:
                    return listed.runs[0].run_id
                await asyncio.sleep(0.05)

    async def _sandbox(self) -> Things:
        """Acquire a sandbox with a file and a command, and make a workspace and a snapshot."""
        session_id, request_id = _OF_ANN["session_id"], _OF_ANN["request"]
        acquired = await self._ask(
            "executor.SandboxService/AcquireSandbox",
            by=Identity.AGENT,
            request_id=request_id,
            session_id=session_id,
        )
        held = acquired.lease
        lease = {"sandbox_id": held.sandbox_id, "token": held.token, "epoch": held.epoch}
        data = CANARY.encode()
        header = {
            "lease": lease,
            "path": "/workspace/note",
            "length_bytes": len(data),
            "sha256": _bytes(CANARY_DIGEST),
        }
        await self._ask(
            "executor.FileService/UploadFile",
            {"header": header},
            {"chunk": _bytes(data)},
            by=Identity.AGENT,
        )
        await self._ask(
            "executor.ExecService/StartExec",
            by=Identity.AGENT,
            lease=lease,
            exec_id=_OF_ANN["exec_id"],
            script=f"echo {CANARY}; sleep 600",
        )
        made = await self._ask(
            "executor.WorkspaceService/CreateWorkspace", request_id=request_id, name=CANARY
        )
        taken = await self._ask(
            "executor.WorkspaceService/CreateSnapshot",
            request_id="snapshot-of-ann",
            workspace_id=acquired.sandbox.workspace_id,
            name=CANARY,
        )
        return {
            "sandbox_id": held.sandbox_id,
            "token": held.token,
            "workspace_id": made.workspace.workspace_id,
            "snapshot_id": taken.snapshot.snapshot_id,
        }

    async def _deliver(self) -> None:
        data, delivery_id = CANARY.encode(), _OF_ANN["delivery_id"]
        file = {"length_bytes": len(data), "sha256": _bytes(CANARY_DIGEST)}
        await self._ask(
            "gateway.DeliveryService/UploadAttachment",
            {"header": {"delivery_id": delivery_id, **file}},
            {"chunk": _bytes(data)},
        )
        await self._ask(
            "gateway.DeliveryService/Deliver",
            delivery_id=delivery_id,
            origin={"platform": "cli", "chat_id": _OF_ANN["session_id"]},
            text=CANARY,
            attachments=[{"name": CANARY, **file}],
        )
