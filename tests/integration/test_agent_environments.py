"""The tools of the toolset `rl` with the real scheduler: a model starts runs and looks at them."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_service.clients.environments import SchedulerEnvironments
from agent_service.records.calls import StepState
from agent_service.records.jobs import RunOptions
from agent_service.tools.rl import rl_tools
from hermes.common.v1.content_pb2 import MessageFile
from hermes.common.v1.origin_pb2 import Origin
from hermes.scheduler.v1.batch_item_pb2 import BATCH_STATE_COMPLETED
from hermes.scheduler.v1.batch_pb2 import ListBatchesRequest, ListItemsRequest, WatchBatchRequest
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.home.paths import HomePaths
from services.rpc.addresses import UnixAddress
from services.rpc.auth import new_tokens
from services.rpc.channels import Channels
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import AgentClient, answer
from tests.integration.agent_tool_parts import open_tools
from tests.integration.test_agent_cronjob import everything, results
from tests.integration.test_agent_messages import DONE

TASKS: Sequence[dict[str, Any]] = (
    {"id": "made", "prompt": "touch a file", "check": "test -e made"},
    {"id": "half", "prompt": "hello", "check_files": ["half.txt"], "check": "cat uploads/half.txt"},
)
TOUCH = call("terminal", command="touch made")
ITEMS = (
    {"user": "touch a file", "steps": [TOUCH, DONE]},
    {"user": "hello", "steps": [{"text": "hi"}]},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text('{"tools": {"rl": true}}')
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "mine.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in TASKS))
    (environments / "half.txt").write_text("0.5")
    return tmp_path


def environments_of(folder: Path, channels: Channels) -> SchedulerEnvironments:
    """What the tools of the agent in a home use."""

    async def upload(path: Path) -> MessageFile:
        data = await asyncio.to_thread(path.read_bytes)
        return await AgentClient(channels).upload(data, path.name)

    return SchedulerEnvironments(channels, HomePaths(folder, folder, name=""), upload)


async def completed(channels: Channels) -> str:
    """The name of the only batch, once it is done."""
    stub = BatchServiceStub(channels.to("scheduler"))
    (batch,) = (await stub.ListBatches(ListBatchesRequest())).batches
    async for watched in stub.WatchBatch(WatchBatchRequest(name=batch.name)):
        batch = watched.batch
    assert batch.state == BATCH_STATE_COMPLETED
    return batch.name


async def test_a_model_runs_an_environment_and_looks_at_the_results(folder: Path) -> None:
    start = call("rl_start", environment="mine", group_size=2, budget_usd=2.5)
    rules = [{"user": "begin", "steps": [call("rl_list_environments"), start, DONE]}, *ITEMS]
    async with fake_model({"rules": rules}) as model, everything(folder, model) as channels:
        client = AgentClient(channels)
        turn = await client.start("begin")
        assert answer(await client.watch(turn.turn_id)) == "done"
        name = await completed(channels)
        conversation = next(
            body["messages"]
            for body in model.bodies
            if [each["role"] for each in body["messages"]].count("tool") == 2
        )
        listed, started = (
            json.loads(each["content"]) for each in conversation if each["role"] == "tool"
        )
        assert (listed["mine"], "no tasks yet" in listed["hermes_swe_env"]) == (2, True)
        assert listed["terminal_test_env"] >= 12
        assert (started["run"], started["item_count"]) == (name, 4)
        items = await BatchServiceStub(channels.to("scheduler")).ListItems(
            ListItemsRequest(name=name)
        )
        assert [item.result.score for item in items.items] == [1, 1, 0.5, 0.5]


async def test_a_model_looks_at_a_run(folder: Path) -> None:
    name = f"mine.{hashlib.sha256(b'call_1').hexdigest()[:8]}"
    look = [
        call("rl_status", run=name),
        call("rl_results", run=name, limit=1),
        call("rl_stop", run=name),
        call("rl_status", run="other"),
        call("rl_start", environment="minne"),
        DONE,
    ]
    rules = [{"user": "look", "steps": look}, *ITEMS]
    async with fake_model({"rules": rules}) as model, everything(folder, model) as channels:
        environments = environments_of(folder, channels)
        await environments.start("default", "call_1", RunOptions("mine", group_size=2))
        assert await completed(channels) == name
        client = AgentClient(channels)
        turn = await client.start("look")
        assert answer(await client.watch(turn.turn_id)) == "done"
        status, shown, stopped, unknown, missing = results(model)
    found = json.loads(status)
    assert (found["state"], found["done_count"], found["success_count"]) == ("completed", 4, 2)
    assert json.loads(shown) == {
        "ended": 4,
        "mean_score": 0.75,
        "mean_reward": 0.75,
        "worst": [{"id": "half.1", "score": 0.5, "reward": 0.5, "finish_reason": "completed"}],
    }
    assert json.loads(stopped)["state"] == "completed"
    assert "other" in unknown
    assert "no environment minne; there are hermes_swe_env, mine" in missing


async def test_a_call_that_is_made_again_starts_nothing_though_the_tasks_changed(
    folder: Path,
) -> None:
    async with fake_model({"rules": [*ITEMS]}) as model, everything(folder, model) as channels:
        more = rl_tools(environments_of(folder, channels))
        nowhere = UnixAddress(folder / "nobody.sock")
        async with open_tools(folder, nowhere, new_tokens(), more=more) as tools:
            asked = tools.pending("rl_start", {"environment": "mine"})
            (first,) = await tools.run(asked)
            path = folder / "environments/mine.jsonl"
            await asyncio.to_thread(path.write_text, f"{json.dumps(TASKS[0])}\n")
            resumed = replace(tools.resumed(asked), state=StepState.DISPATCHED)
            (again,) = await tools.run(resumed)
            started, found = json.loads(first.text), json.loads(again.text)
            assert (found["run"], found["item_count"]) == (started["run"], 2)
            assert await completed(channels) == started["run"]
            other = json.loads(await tools.text("rl_start", environment="mine"))
            assert (other["run"] != started["run"], other["item_count"]) == (True, 1)


async def test_an_item_of_a_batch_starts_no_run(folder: Path) -> None:
    rules = [{"steps": [call("rl_start", environment="mine"), DONE]}]
    async with fake_model({"rules": rules}) as model, everything(folder, model) as channels:
        client = AgentClient(channels)
        turn = await client.start("go", origin=Origin(platform="batch", chat_id="first"))
        assert answer(await client.watch(turn.turn_id)) == "done"
        (refused,) = results(model)
        assert "cannot start one" in refused
        stub = BatchServiceStub(channels.to("scheduler"))
        assert not (await stub.ListBatches(ListBatchesRequest())).batches
