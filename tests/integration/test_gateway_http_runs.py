"""/v1/runs, which go on without their clients."""

import json
from pathlib import Path
from typing import Any

from tests.fakes.model import answers
from tests.integration.http_parts import api
from tests.integration.test_gateway_http import ASK, CLOSED, RUN, steps


async def test_a_run(tmp_path: Path) -> None:
    async with api(tmp_path, steps(RUN, {"text": "I could not."}), ASK) as running:
        status, run = await running.post("/v1/runs", {"input": "Clean up"})
        assert status == 202
        path = f"/v1/runs/{run['run_id']}"
        events: list[Any] = []
        async with running.http.get(f"{path}/events") as stream:
            async for line in stream.content:
                if not line.startswith(b"data: "):
                    continue
                events.append(json.loads(line[6:]))
                if events[-1]["event"] == "approval.request":
                    _, state = await running.get(path)
                    assert state["status"] == "waiting_for_approval"
                    decision = {"approval_id": events[-1]["approval_id"], "choice": "deny"}
                    assert (await running.post(f"{path}/approval", decision))[0] == 200
        names = [event["event"] for event in events]
        assert names[:2] == ["tool.started", "approval.request"]
        assert names[-1] == "run.completed"
        assert events[-1]["output"] == "I could not."
        _, state = await running.get(path)
        assert (state["status"], state["output"]) == ("completed", "I could not.")
        await running.running.until_rows("gateway", CLOSED, [("CLOSED",)])


async def test_a_run_that_is_stopped(tmp_path: Path) -> None:
    async with api(tmp_path, answers({"text": "Hello", "hang_after": 1})) as running:
        _, run = await running.post("/v1/runs", {"input": "Hi"})
        path = f"/v1/runs/{run['run_id']}"
        await running.model.until(lambda: running.model.requests != [])
        assert (await running.post(f"{path}/stop", {}))[0] == 200
        await running.running.until_rows("agent", "SELECT state FROM turn", [("CANCELLED",)])
        assert (await running.get(path))[1]["status"] == "cancelled"
        assert (await running.post(f"{path}/stop", {}))[1]["status"] == "cancelled"
        assert (await running.post("/v1/runs/run_unknown/stop", {}))[0] == 404
        assert (await running.get("/v1/runs/run_unknown"))[0] == 404


async def test_a_run_does_not_need_its_client(tmp_path: Path) -> None:
    slowly = {"chunk_chars": 4, "chunk_delay_s": 0.1}
    async with api(tmp_path, answers({"text": "Hello, you there!", **slowly})) as running:
        _, run = await running.post("/v1/runs", {"input": "Hi", "session_id": "mine"})
        path = f"/v1/runs/{run['run_id']}/events"
        async with running.http.get(path) as stream:
            await stream.content.readline()
        await running.running.until_rows("agent", "SELECT state FROM turn", [("COMPLETED",)])
        async with running.http.get(path) as stream:
            lines = (await stream.text()).splitlines()
        assert json.loads(lines[-2].removeprefix("data: "))["output"] == "Hello, you there!"
        last = next(line[4:] for line in reversed(lines) if line.startswith("id: "))
        async with running.http.get(path, headers={"Last-Event-ID": str(int(last) - 1)}) as stream:
            assert (await stream.text()).count("data: ") == 1
        assert run["session_id"] == "mine"
