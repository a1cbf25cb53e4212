"""Scripts of jobs that a person has to allow, that print too much, or that need no model at all."""

import asyncio
import base64
import secrets
import signal
from pathlib import Path

import pytest
from aiohttp import web

from hermes.agent.v1 import approval_pb2, turn_event_pb2, turn_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.common.v1 import approval_pb2 as policies
from hermes.common.v1 import error_pb2
from tests.fakes.web import site
from tests.integration.agent_parts import AgentClient, answer, kinds
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.test_agent_approvals import asked, resolve
from tests.integration.test_agent_scripts import ANSWERS, GATE, ONLY, failure, run, start
from tests.integration.test_agent_takeover import Stage, staged
from tests.support.boxes import BUBBLEWRAP_FIRST

WAIT, HALT = policies.UNATTENDED_POLICY_WAIT, policies.UNATTENDED_POLICY_HALT
ASKS = "approvals: {mode: manual, sandboxed: ask, timeout: 60}\n"
TIDY = "mkdir -p src; echo ran >>log; rm -r src; echo tidied"


async def _set(stage: Stage, text: str, *instances: str) -> None:
    def write() -> None:
        for instance in instances:
            home = stage.site.folder / instance
            home.mkdir()
            (home / "config.yaml").write_text(text)

    await asyncio.to_thread(write)


async def test_a_script_that_nobody_can_allow_halts_its_job(
    tmp_path: Path, postgres_url: str
) -> None:
    async with staged(tmp_path, postgres_url, ANSWERS) as stage:
        await _set(stage, ASKS, "only")
        async with stage.agent("only") as agent, agent.client() as client:
            for mode in (GATE, ONLY):
                events = await run(client, TIDY, mode=mode, unattended=HALT)
                assert failure(events).reason == error_pb2.ERROR_REASON_APPROVAL_REQUIRED
                assert "rm -r src" in failure(events).message
                assert "approval_requested" not in kinds(events)
            assert (await _waiting(client)) == []
        assert await stage.file("log") == ""
        assert stage.model.requests == []


@pytest.mark.parametrize("mode", [GATE, ONLY])
async def test_a_script_that_waits_for_a_person_outlives_its_agent_and_runs_once(
    tmp_path: Path, postgres_url: str, mode: turn_pb2.ScriptMode.ValueType
) -> None:
    async with staged(tmp_path, postgres_url, ANSWERS) as stage:
        await _set(stage, ASKS, "first", "second")
        async with stage.agent("first") as first, first.client() as client:
            turn_id = await start(client, TIDY, mode, unattended=WAIT)
            wanted = (await asked(client, turn_id)).approval_id
            first.signal(signal.SIGKILL)
            await first.ended()
        async with stage.agent("second") as second, second.client() as client:
            (found,) = await _waiting(client)
            assert (found.approval_id, found.subject) == (wanted, TIDY)
            assert await stage.file("log") == ""
            await resolve(client, wanted, turn_event_pb2.APPROVAL_DECISION_ONCE)
            events = await client.watch(turn_id)
            assert answer(events) == ("tidied" if mode == ONLY else "seen")
            assert kinds(events).count("tool_finished") == 1
            # What was allowed once is asked again in the next run.
            again = await start(client, TIDY, mode, unattended=WAIT)
            assert (await asked(client, again)).subject == TIDY
        assert await stage.file("log") == "ran\n"
        assert len(stage.model.requests) == (0 if mode == ONLY else 1)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (turn_event_pb2.APPROVAL_DECISION_DENY, "The job's script was not run: it was denied."),
        (None, "The job's script was not run: nobody answered in time whether it is allowed."),
    ],
)
async def test_who_has_a_job_is_told_in_words_for_people_why_its_script_was_not_run(
    tmp_path: Path,
    postgres_url: str,
    decision: turn_event_pb2.ApprovalDecision.ValueType | None,
    told: str,
) -> None:
    async with staged(tmp_path, postgres_url, ANSWERS) as stage:
        await _set(stage, ASKS if decision else ASKS.replace("60", "1"), "only")
        async with stage.agent("only") as agent, agent.client() as client:
            turn_id = await start(client, TIDY, unattended=WAIT)
            if decision is not None:
                await resolve(client, (await asked(client, turn_id)).approval_id, decision)
            ended = failure(await client.watch(turn_id))
            assert ended.message == told
        assert await stage.file("log") == ""
        assert stage.model.requests == []


async def test_what_is_allowed_always_is_this_script_and_no_other(
    tmp_path: Path, postgres_url: str
) -> None:
    async with staged(tmp_path, postgres_url, ANSWERS) as stage:
        await _set(stage, ASKS, "only")
        async with stage.agent("only") as agent, agent.client() as client:
            turn_id = await start(client, TIDY, ONLY, unattended=WAIT)
            wanted = (await asked(client, turn_id)).approval_id
            await resolve(client, wanted, turn_event_pb2.APPROVAL_DECISION_ALWAYS)
            assert answer(await client.watch(turn_id)) == "tidied"
            assert answer(await run(client, TIDY, mode=ONLY, unattended=HALT)) == "tidied"
            other = TIDY.replace("rm -r src", "rm -r ../workspace")
            halted = failure(await run(client, other, mode=ONLY, unattended=HALT))
            assert halted.reason == error_pb2.ERROR_REASON_APPROVAL_REQUIRED


async def _waiting(client: AgentClient) -> list[approval_pb2.Approval]:
    stub = ApprovalServiceStub(client.channels.to("agent"))
    return list((await stub.ListApprovals(approval_pb2.ListApprovalsRequest())).approvals)


class _NoModel(Site, frozen=True):
    """Agents that know where a provider is, and are told neither a model nor a key."""

    provider: str = ""

    def environ(self, instance: str) -> dict[str, str]:
        kept = super().environ(instance)
        for name in ("HERMES_MODEL", "HERMES_API_KEY", "HERMES_BASE_URL"):
            del kept[name]
        return kept | ({"HERMES_BASE_URL": self.provider} if self.provider else {})


@pytest.mark.parametrize("has_provider", [False, True])
async def test_a_script_alone_needs_no_model_and_asks_no_provider_for_anything(
    tmp_path: Path, postgres_url: str, *, has_provider: bool
) -> None:
    async def nothing(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    async with staged(tmp_path, postgres_url, ANSWERS) as stage, site(nothing) as provider:
        known = {name: getattr(stage.site, name) for name in Site.__struct_fields__}
        place = provider.url("127.0.0.1", "/v1") if has_provider else ""
        async with (
            AgentProcess(_NoModel(**known, provider=place), "only") as agent,
            agent.client() as client,
        ):
            events = await run(client, "echo all is well", mode=ONLY, prompt="")
            assert answer(events) == "all is well"
            silent = await run(client, "true", mode=ONLY, prompt="")
            assert silent[-1].turn_finished.HasField("completed")
        assert provider.seen == []
        assert stage.model.requests == []


@pytest.mark.parametrize("backend", BUBBLEWRAP_FIRST)
async def test_a_script_sees_no_secret_of_the_services_in_any_sandbox(
    tmp_path: Path, postgres_url: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = secrets.token_hex(12)
    monkeypatch.setenv("PLANTED_API_KEY", canary)
    # In letters that no redaction knows again.
    look = "(env; set; cat /proc/*/environ) 2>/dev/null | tr '\\0' '\\n' | tr a-y b-z"
    moved = str.maketrans("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz")
    await asyncio.to_thread(_ask_nobody, tmp_path / "only")
    async with (
        staged(tmp_path, postgres_url, ANSWERS, HERMES_BACKEND=backend) as stage,
        stage.agent("only") as agent,
        agent.client() as client,
    ):
        place = await run(client, "echo here; id -u; pwd", mode=ONLY)
        assert answer(place).split() == ["here", answer(place).split()[1], "/workspace"]
        started = [e.tool_finished.backend for e in place if e.HasField("tool_finished")]
        assert started == [backend]
        seen = answer(await run(client, look, mode=ONLY))
        assert "PATH=" in seen
        for secret in (canary, "test-key", base64.b64encode(canary.encode()).decode()):
            assert secret not in seen
            assert secret.translate(moved) not in seen
        assert not [name for name in ("HERMES_DATABASE_URL", "API_KEY") if name in seen]
        gated = await run(client, "echo two new mails")
        assert answer(gated) == "seen"
        assert "two new mails" in stage.model.bodies[-1]["messages"][-1]["content"]


def _ask_nobody(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("approvals: {mode: 'off'}\n")
