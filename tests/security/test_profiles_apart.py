"""No RPC of any service shows or changes what is another profile's, whoever calls it.

Each RPC has a row in the table. It is called for the profile bob with the ids of what ann has, and
with ids that nobody has: both must be answered alike, nothing of ann's may be in an answer, and all
that ann has must be as it was. An RPC without a row fails.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio
from google.protobuf.message import Message

from hermes.agent.v1 import approval_pb2, memory_pb2, session_pb2, skill_pb2, turn_pb2, usage_pb2
from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2, workspace_pb2
from hermes.gateway.v1 import delivery_pb2
from hermes.scheduler.v1 import job_pb2, run_pb2
from services.auth import Identity
from services.errors import details_of
from services.streams import open_stream
from tests.contract.test_policies import APPS, policy_of
from tests.fakes.model import fake_model
from tests.postgres import PostgresServer
from tests.security.households import (
    ANN,
    CANARY,
    CANARY_DIGEST,
    NOTHING,
    SCRIPT,
    Household,
    Things,
    household,
)
from tests.security.profile_table import (
    AGENT,
    EXECUTOR,
    GATEWAY,
    ROWS,
    SCHEDULER,
    Alike,
    Apart,
    Row,
    Whole,
)
from tests.unit.services.descriptors import methods

METHODS = methods()
CALLERS = {method: who for app in APPS for method, who in policy_of(app).items()}


def test_every_rpc_is_in_the_table_and_in_a_policy() -> None:
    assert set(ROWS) == set(METHODS) == set(CALLERS)


def test_what_is_about_all_profiles_is_for_operators() -> None:
    whole = [method for method, row in ROWS.items() if isinstance(row, Whole)]
    assert {method for method in whole if CALLERS[method] != {Identity.OPERATOR}} == set()


def test_a_row_names_a_profile_wherever_a_request_does() -> None:
    without = [
        method
        for method, row in ROWS.items()
        if not isinstance(row, Alike | Apart)
        and "profile" in METHODS[method].input_type.fields_by_name
    ]
    assert without == []


@pytest.fixture(scope="module", params=["files", "rows"])
def profiles(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where profiles are kept, each kind in turn: empty for files, else a PostgreSQL database."""
    if request.param == "files":
        yield ""
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.migrated() as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(
    profiles: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Household]:
    home = await asyncio.to_thread(tmp_path_factory.mktemp, "home")
    async with fake_model(SCRIPT) as model, household(home, model.url, profiles) as opened:
        yield opened


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("service", sorted({method.rpartition("/")[0] for method in ROWS}))
async def test_nobody_reaches_what_is_another_profile_s(house: Household, service: str) -> None:
    problems: list[str] = []
    before = await _state(house)
    assert all(before.values()), before
    assert sum(CANARY in text for text in before.values()) > len(before) / 2
    for method, row in ROWS.items():
        if method.rpartition("/")[0] == service:
            for identity in sorted(CALLERS[method]):
                found = await _problems(house, identity, method, row)
                problems += [f"{method} by {identity} {problem}" for problem in found]
    after = await _state(house)
    problems += [f"something changed {what}" for what in before if before[what] != after[what]]
    assert not problems, "\n".join(problems)


async def _problems(house: Household, identity: Identity, method: str, row: Row) -> list[str]:
    """What a call shows that it should not."""
    problems: list[str] = []
    for make in row.apart if isinstance(row, Alike | Apart) else ():
        theirs = await _called(house, identity, method, make(house.things))
        if CANARY in "".join(theirs):
            problems.append(f"shows what is ann's: {theirs}")
    for make in (row.make, *row.also) if isinstance(row, Alike) else ():
        theirs = await _called(house, identity, method, make(house.things))
        nobodys = await _called(house, identity, method, make(NOTHING))
        if CANARY in "".join(theirs):
            problems.append(f"shows what is ann's: {theirs}")
        if house.things.hidden("|".join(theirs)) != NOTHING.hidden("|".join(nobodys)):
            problems.append(f"tells them apart: {theirs} and {nobodys}")
    return problems


async def _called(
    house: Household, identity: Identity, method: str, request: Message | Sequence[Message]
) -> Sequence[str]:
    """What a call was answered with: messages, or why it failed."""
    told: list[str] = []
    try:
        answers = _answers(house, identity, method, request)
        told.extend([str(answer) async for answer in answers])
    except grpc.aio.AioRpcError as error:
        details = details_of(error)
        told.append(f"{details.reason}: {details.message} {dict(details.metadata)}")
    return told


async def _answers(
    house: Household, identity: Identity, method: str, request: Message | Sequence[Message]
) -> AsyncIterator[Any]:
    described = METHODS[method]
    service, _, name = method[1:].rpartition("/")
    file = described.containing_service.file.name.removesuffix(".proto").replace("/", ".")
    module = importlib.import_module(f"{file}_pb2_grpc")
    stub = getattr(module, f"{described.containing_service.name}Stub")
    channel = house.channels[identity].to(service.split(".")[1])
    given = request if isinstance(request, Message) else _each(request)
    call = getattr(stub(channel), name)(given, timeout=20)
    if not described.server_streaming:
        yield await call
        return
    async with open_stream(call):
        async for answer in call:
            yield answer


async def _each(requests: Sequence[Message]) -> AsyncIterator[Message]:
    for request in requests:
        yield request


def _asked(things: Things) -> Mapping[str, Message]:
    """What ann asks for, to see what she has."""
    lease = things.lease
    return {
        AGENT + "SessionService/GetSession": session_pb2.GetSessionRequest(
            profile=ANN, session_id=things.session
        ),
        AGENT + "SessionService/ListSessions": session_pb2.ListSessionsRequest(profile=ANN),
        AGENT + "SessionService/ListMessages": session_pb2.ListMessagesRequest(
            profile=ANN, session_id=things.session
        ),
        AGENT + "TurnService/GetTurn": turn_pb2.GetTurnRequest(
            profile=ANN, turn_id=things.waiting_turn
        ),
        AGENT + "TurnService/WatchTurn": turn_pb2.WatchTurnRequest(
            profile=ANN, turn_id=things.turn
        ),
        AGENT + "ApprovalService/ListApprovals": approval_pb2.ListApprovalsRequest(profile=ANN),
        AGENT + "MemoryService/GetMemory": memory_pb2.GetMemoryRequest(profile=ANN),
        AGENT + "MemoryService/ListMemoryChanges": memory_pb2.ListMemoryChangesRequest(profile=ANN),
        AGENT + "SkillService/ListSkills": skill_pb2.ListSkillsRequest(profile=ANN),
        AGENT + "UsageService/GetBudget": usage_pb2.GetBudgetRequest(
            profile=ANN, session_id=things.session
        ),
        EXECUTOR + "SandboxService/ListSandboxes": sandbox_pb2.ListSandboxesRequest(profile=ANN),
        EXECUTOR + "ExecService/ReadExecOutput": exec_pb2.ReadExecOutputRequest(
            lease=lease, profile=ANN, exec_id=things.exec, stream=exec_pb2.OUTPUT_STREAM_STDOUT
        ),
        EXECUTOR + "FileService/DownloadFile": file_pb2.DownloadFileRequest(
            lease=lease, profile=ANN, path="/workspace/note"
        ),
        EXECUTOR + "WorkspaceService/GetWorkspace": workspace_pb2.GetWorkspaceRequest(
            profile=ANN, workspace_id=things.workspace
        ),
        EXECUTOR + "WorkspaceService/ListSnapshots": workspace_pb2.ListSnapshotsRequest(
            profile=ANN
        ),
        GATEWAY + "DeliveryService/GetDelivery": delivery_pb2.GetDeliveryRequest(
            profile=ANN, delivery_id=things.delivery
        ),
        GATEWAY + "DeliveryService/DownloadAttachment": delivery_pb2.DownloadAttachmentRequest(
            profile=ANN, delivery_id=things.delivery, sha256=CANARY_DIGEST
        ),
        SCHEDULER + "JobService/ListJobs": job_pb2.ListJobsRequest(profile=ANN),
        SCHEDULER + "JobService/ListRuns": run_pb2.ListRunsRequest(profile=ANN, job_id=things.job),
    }


async def _state(house: Household) -> Mapping[str, str]:
    """All that ann has."""
    found: dict[str, str] = {}
    for method, request in _asked(house.things).items():
        is_agents = Identity.AGENT in CALLERS[method] and method.startswith(EXECUTOR)
        identity = Identity.AGENT if is_agents else Identity.OPERATOR
        answers = _answers(house, identity, method, request)
        found[method] = "".join([str(answer) async for answer in answers])
    return found
