"""Two profiles on one Hermes: ann, who has one of everything, and bob, who wants to see it."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from agent_service import app as agent_app
from executor_service import app as executor_app
from gateway_service import app as gateway_app
from hermes.agent.v1 import home_pb2, memory_pb2, turn_pb2, usage_pb2
from hermes.agent.v1.home_pb2_grpc import HomeServiceStub
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceStub
from hermes.agent.v1.turn_pb2_grpc import TurnServiceStub
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import Origin
from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2, workspace_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from hermes.executor.v1.workspace_pb2_grpc import WorkspaceServiceStub
from hermes.gateway.v1 import delivery_pb2
from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from hermes.scheduler.v1 import job_pb2, run_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from scheduler_service import app as scheduler_app
from services.addresses import UnixAddress
from services.auth import Identity, new_tokens
from services.channels import Channels
from services.component import Component
from services.config import load_settings
from services.lifecycle import Workers
from services.metrics import Meter
from services.server import Listen, Server
from services.streams import open_stream
from tests.executors import end_boxes

ANN, BOB = "ann", "bob"
CANARY = "Otterburg"
CANARY_DIGEST = hashlib.sha256(CANARY.encode()).digest()
"""Stands in everything that ann has."""
SKILL = "otterburg-walks"
NEW_SESSION = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{6}\b")
BUILDS = {
    "agent": agent_app.build,
    "executor": executor_app.build,
    "gateway": gateway_app.build,
    "scheduler": scheduler_app.build,
}


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


SCRIPT = {
    "rules": [
        {"user": "danger", "steps": [_call("terminal", command=f"rm -rf {CANARY}"), {"text": "x"}]},
        {"user": "which", "steps": [_call("clarify", question=f"{CANARY}?"), {"text": "x"}]},
        {"steps": [{"text": f"So {CANARY} it is."}]},
    ]
}
CONFIG = (
    "approvals: {mode: manual, sandboxed: ask}\n"
    "models: {scripted: {price: {input: 0, output: 0}}}\n"
)
"""With a price, so that a budget in dollars lets the model be asked."""


@dataclass(frozen=True, slots=True)
class Things:
    """The ids of what somebody has."""

    session: str
    turn: str
    waiting_session: str
    waiting_turn: str
    approval: str
    asking_session: str
    question: str
    change: str
    job: str
    run: str
    lease_id: str
    token: str
    exec: str
    workspace: str
    snapshot: str
    delivery: str
    message: str
    request: str
    """By which a sandbox, a workspace, a copy and a snapshot were asked for."""
    skill: str

    @property
    def lease(self) -> sandbox_pb2.Lease:
        """The lease of the sandbox."""
        return sandbox_pb2.Lease(sandbox_id=self.lease_id, token=self.token, epoch=1)

    def hidden(self, text: str) -> str:
        """A text without ids, to be compared."""
        ids = sorted((getattr(self, field.name) for field in fields(self)), key=len, reverse=True)
        for each in ids:
            text = text.replace(each, "<id>")
        return NEW_SESSION.sub("<id>", text)


NOTHING = Things(
    **{field.name: f"none_{field.name}" for field in fields(Things) if field.name != "token"},
    token="0" * 64,
)
"""What nobody has."""


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
            server = Server(components, Listen((socket,), tokens=tokens))
            await stack.enter_async_context(server)
            for component in components:
                await stack.enter_async_context(component)
            workers = await stack.enter_async_context(Workers())
            await server.start()
            for component in components:
                workers.start(component.name, component.run())
            yield Household(channels, await _things(channels))
            for component in components:
                await component.drain()
    finally:
        await end_boxes(settings)


async def _things(channels: Mapping[Identity, Channels]) -> Things:
    operator, agent = channels[Identity.OPERATOR], channels[Identity.AGENT]
    turn = await _turn(operator, "hello", "session")
    waiting = await _turn(operator, "danger", "waiting")
    asking = await _turn(operator, "which", "asking")
    await _talk(operator)
    await _furnish(operator)
    change = await _remember(operator)
    job, run = await _job(operator)
    sandbox = await _sandbox(agent)
    lease, execution = sandbox.lease, await _exec(agent, sandbox.lease)
    workspace, snapshot = await _workspace(operator, sandbox.sandbox.workspace_id)
    await _spend(operator)
    return Things(
        session="session-of-ann",
        turn=turn,
        waiting_session="waiting-of-ann",
        waiting_turn=waiting,
        approval=(await _waits(operator, waiting, "approval_requested")).approval_id,
        asking_session="asking-of-ann",
        question=(await _waits(operator, asking, "clarification_requested")).clarification_id,
        change=change,
        job=job,
        run=run,
        lease_id=lease.sandbox_id,
        token=lease.token,
        exec=execution,
        workspace=workspace,
        snapshot=snapshot,
        delivery=await _delivery(operator),
        message="message-of-ann",
        request="request-of-ann",
        skill=SKILL,
    )


async def _turn(channels: Channels, text: str, name: str) -> str:
    stub = TurnServiceStub(channels.to("agent"))
    request = turn_pb2.StartTurnRequest(
        turn_id=f"turn-{name}-of-ann",
        profile=ANN,
        session_id=f"{name}-of-ann",
        parts=[MessagePart(text=f"{text} {CANARY}")],
        origin=Origin(platform="cli"),
    )
    turn = (await stub.StartTurn(request)).turn
    kinds = {"hello": "turn_finished", "danger": "approval_requested"}
    await _waits(channels, turn.turn_id, kinds.get(text, "clarification_requested"))
    return turn.turn_id


async def _waits(channels: Channels, turn_id: str, kind: str) -> Any:
    """The turn's first event of a kind."""
    request = turn_pb2.WatchTurnRequest(turn_id=turn_id, profile=ANN)
    stub = TurnServiceStub(channels.to("agent"))
    async with open_stream(stub.WatchTurn(request)) as call:
        async for message in call:
            for event in message.events:
                if event.WhichOneof("kind") == kind:
                    return getattr(event, kind)
    raise AssertionError(f"{turn_id} ended without {kind}")


async def _talk(channels: Channels) -> None:
    """Say something in the first session, as at a terminal."""
    opening = ConverseRequest.Open(profile=ANN, session_id="session-of-ann")
    said = ConverseRequest.UserMessage(message_id="message-of-ann", text=CANARY)
    requests = [ConverseRequest(open=opening), ConverseRequest(user_message=said)]
    call = ConversationServiceStub(channels.to("gateway")).Converse(iter(requests))
    async with open_stream(call):
        assert [answer async for answer in call]


async def _furnish(channels: Channels) -> None:
    """Give ann a skill, and bob something of his own."""
    files = {
        (ANN, f"skills/{SKILL}/SKILL.md"): f"---\nname: {SKILL}\ndescription: {CANARY}\n---\nGo.",
        (BOB, "SOUL.md"): "Be bob's.",
    }
    requests = [
        home_pb2.ImportHomeRequest(
            file=home_pb2.HomeFile(profile=profile, path=path), data=text.encode()
        )
        for (profile, path), text in files.items()
    ]
    requests.append(home_pb2.ImportHomeRequest(finish=True))
    taken = await HomeServiceStub(channels.to("agent")).ImportHome(iter(requests))
    assert taken.added_count == len(files)


async def _remember(channels: Channels) -> str:
    operation = memory_pb2.MemoryOperation(
        action=memory_pb2.MEMORY_ACTION_ADD, content=f"Lives in {CANARY}."
    )
    request = memory_pb2.ApplyMemoryRequest(
        request_id="change-of-ann",
        profile=ANN,
        target=memory_pb2.MEMORY_TARGET_USER,
        operations=[operation],
    )
    await MemoryServiceStub(channels.to("agent")).ApplyMemory(request)
    return request.request_id


async def _spend(channels: Channels) -> None:
    limit = usage_pb2.BudgetAmount(micro_usd=77_777_777)
    for scope, scope_id in (
        (usage_pb2.BUDGET_SCOPE_PROFILE, ""),
        (usage_pb2.BUDGET_SCOPE_SESSION, "session-of-ann"),
    ):
        request = usage_pb2.SetBudgetRequest(
            profile=ANN, scope=scope, scope_id=scope_id, limit=limit
        )
        await UsageServiceStub(channels.to("agent")).SetBudget(request)


async def _job(channels: Channels) -> tuple[str, str]:
    """A job that has run once and goes on, and its run."""
    stub = JobServiceStub(channels.to("scheduler"))
    for job_id, schedule in (("job-of-ann", "in 1 second"), ("later-of-ann", "every 24 hours")):
        await stub.CreateJob(
            job_pb2.CreateJobRequest(
                job=job_pb2.Job(job_id=job_id, schedule=schedule, prompt=CANARY, name=CANARY),
                profile=ANN,
            )
        )
    request = run_pb2.ListRunsRequest(job_id="job-of-ann", profile=ANN)
    async with asyncio.timeout(20):
        while not (found := (await stub.ListRuns(request)).runs) or not found[0].output:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return "job-of-ann", found[0].run_id


async def _sandbox(channels: Channels) -> sandbox_pb2.AcquireSandboxResponse:
    request = sandbox_pb2.AcquireSandboxRequest(
        request_id="request-of-ann", profile=ANN, session_id="session-of-ann"
    )
    return await SandboxServiceStub(channels.to("executor")).AcquireSandbox(request, timeout=60)


async def _exec(channels: Channels, lease: sandbox_pb2.Lease) -> str:
    channel, data = channels.to("executor"), CANARY.encode()
    header = file_pb2.UploadFileRequest.Header(
        lease=lease,
        profile=ANN,
        path="/workspace/note",
        length_bytes=len(data),
        sha256=hashlib.sha256(data).digest(),
    )
    requests = [file_pb2.UploadFileRequest(header=header), file_pb2.UploadFileRequest(chunk=data)]
    await FileServiceStub(channel).UploadFile(iter(requests))
    started = exec_pb2.StartExecRequest(
        lease=lease, profile=ANN, exec_id="exec-of-ann", script=f"echo {CANARY}; sleep 600"
    )
    await ExecServiceStub(channel).StartExec(started)
    return started.exec_id


async def _workspace(channels: Channels, used: str) -> tuple[str, str]:
    """A workspace that no sandbox has, and a snapshot of one that is used."""
    stub = WorkspaceServiceStub(channels.to("executor"))
    made = workspace_pb2.CreateWorkspaceRequest(
        request_id="request-of-ann", profile=ANN, name=CANARY
    )
    workspace = (await stub.CreateWorkspace(made)).workspace.workspace_id
    taken = workspace_pb2.CreateSnapshotRequest(
        request_id="snapshot-of-ann", profile=ANN, workspace_id=used, name=CANARY
    )
    return workspace, (await stub.CreateSnapshot(taken, timeout=60)).snapshot.snapshot_id


async def _delivery(channels: Channels) -> str:
    stub, data = DeliveryServiceStub(channels.to("gateway")), CANARY.encode()
    file = delivery_pb2.Attachment(name=CANARY, length_bytes=len(data), sha256=CANARY_DIGEST)
    request = delivery_pb2.DeliverRequest(
        delivery_id="delivery-of-ann",
        profile=ANN,
        destination=Origin(platform="cli", chat_id="session-of-ann"),
        text=CANARY,
        attachments=[file],
    )
    header = delivery_pb2.UploadAttachmentRequest.Header(
        delivery_id=request.delivery_id, profile=ANN, length_bytes=len(data), sha256=CANARY_DIGEST
    )
    parts = [
        delivery_pb2.UploadAttachmentRequest(header=header),
        delivery_pb2.UploadAttachmentRequest(chunk=data),
    ]
    await stub.UploadAttachment(iter(parts))
    await stub.Deliver(request)
    return request.delivery_id
