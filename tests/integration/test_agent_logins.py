"""Whole turns with a login in place of a key: renewed, refused, ended, and beside other models."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_service.assembly.checks import checks
from agent_service.assembly.logins import log_in
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.config.settings import load_settings
from services.runtime.checks import Verdict
from services.runtime.logins import LoggedIn
from tests.fakes.clock import HastyClock
from tests.fakes.logins import ACCOUNT, FakeLogins, fake_logins
from tests.fakes.model import FakeModel, answers, fake_model
from tests.fakes.responses import RESPONSES
from tests.integration.agent_parts import AgentClient, agent, answer

HI = {"text": "Hi."}
REFUSED = {"status": 401, "error": {"error": {"message": "the token has expired"}}}
OVER = "2026-01-01T00:00:00+00:00"


@dataclass(frozen=True, slots=True)
class Deployment:
    """A home that is logged in, its provider's servers, and the model there."""

    provider: str
    home: Path
    server: FakeLogins
    model: FakeModel

    @asynccontextmanager
    async def agent(self, **variables: str) -> AsyncGenerator[AgentClient]:
        urls = {
            "HERMES_NOUS_PORTAL_URL": self.server.url,
            "HERMES_CODEX_AUTH_URL": self.server.url,
            "HERMES_CODEX_BASE_URL": self.model.url,
            "HERMES_API_KEY": "",
        }
        async with agent(self.home, "", **{**urls, **variables}) as client:
            yield client

    def bearers(self) -> list[str]:
        return [r.headers["authorization"].removeprefix("Bearer ") for r in self.model.requests]

    async def auth(self) -> str:
        return await asyncio.to_thread((self.home / "auth.json").read_text)

    async def log_in(self, *, over: bool) -> dict[str, Any]:
        """Put a login into the home, as if a person had logged in some time ago."""
        usual, self.server.token_s = self.server.token_s, 1 if over else self.server.token_s
        tokens = self.server.tokens()
        self.server.token_s = usual
        if self.provider == "nous":
            ends = {"expires_at": OVER} if over else {}
            entry = {**tokens, **ends, "scope": "inference:invoke"}
            entry["inference_base_url"] = self.server.models_url = self.model.url
        else:
            entry = {"tokens": tokens, "auth_mode": "chatgpt"}
        name = "nous" if self.provider == "nous" else "openai-codex"
        await write(self.home / "auth.json", json.dumps({"providers": {name: entry}}))
        return tokens


async def write(path: Path, text: str) -> None:
    await asyncio.to_thread(path.write_text, text, "utf-8")


@asynccontextmanager
async def deployed(
    provider: str, home: Path, script: Mapping[str, Any], config: str = ""
) -> AsyncGenerator[Deployment]:
    speech = RESPONSES if provider == "codex" else None
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(fake_logins())
        model = await stack.enter_async_context(fake_model(script, speech))
        text = config or f"model: {{provider: {provider}}}\n"
        await write(home / "config.yaml", text)
        yield Deployment(provider, home, server, model)


def failure(events: list[TurnEvent]) -> str:
    return events[-1].turn_finished.failed.failure.message


both = pytest.mark.parametrize("provider", ["nous", "codex"])


@both
async def test_a_token_that_is_refused_is_renewed_once(provider: str, tmp_path: Path) -> None:
    async with deployed(provider, tmp_path, answers(REFUSED, HI, HI)) as deployment:
        tokens = await deployment.log_in(over=False)
        async with deployment.agent() as client:
            assert answer(await client.ask("hello")) == "Hi."
            assert answer(await client.ask("again")) == "Hi."
        first, second, third = deployment.bearers()
        assert first == tokens["access_token"]
        assert second == third != first
        assert deployment.server.renewals == 1


@both
async def test_a_login_that_is_refused_again_is_said_and_no_token_shows_anywhere(
    provider: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with deployed(provider, tmp_path, answers(*[REFUSED] * 4)) as deployment:
        await deployment.log_in(over=False)
        async with deployment.agent() as client:
            events = await client.ask("hello")
        assert f"run hermes login {provider}" in failure(events)
        assert deployment.server.renewals == 1
        assert len(deployment.model.requests) == 2
        shown = caplog.text + "".join(map(str, events)) + await everything_but_auth(tmp_path)
        assert [secret for secret in deployment.server.issued if secret in shown] == []


async def everything_but_auth(home: Path) -> str:
    """All that is kept in a home beside auth.json, databases and logs included."""

    def read() -> str:
        paths = [path for path in home.rglob("*") if path.is_file() and path.name != "auth.json"]
        return "".join(path.read_bytes().decode("latin-1") for path in paths)

    return await asyncio.to_thread(read)


@both
async def test_a_login_that_was_ended_is_one_line_and_another_model_goes_on(
    provider: str, tmp_path: Path
) -> None:
    # The turn is watched before it ends, also on a machine that has other things to do.
    async with fake_model(answers({**HI, "latency_s": 0.3})) as other:
        config = (
            f"model: {{provider: {provider}, default: theirs}}\n"
            f"fallback_providers:\n  - {{model: spare, base_url: '{other.url}'}}\n"
        )
        async with deployed(provider, tmp_path, answers(HI), config) as deployment:
            await deployment.log_in(over=True)
            deployment.server.end_all()
            async with deployment.agent(HERMES_MODEL="") as client:
                events = await client.ask("hello")
    assert answer(events) == "Hi."
    assert deployment.model.requests == []
    (said,) = [e.notice.text for e in events if e.WhichOneof("kind") == "notice"]
    assert f"run hermes login {provider}" in said


async def test_codex_is_spoken_to_by_its_own_rules(tmp_path: Path) -> None:
    async with deployed("codex", tmp_path, answers(HI)) as deployment:
        await deployment.log_in(over=False)
        async with deployment.agent() as client:
            await client.ask("hello")
        (request,), (body,) = deployment.model.requests, deployment.model.bodies
    assert request.path.endswith("/responses")
    assert request.headers["chatgpt-account-id"] == ACCOUNT
    assert request.headers["originator"] == "hermes"
    assert body["store"] is False
    assert body["instructions"]
    assert "max_output_tokens" not in body


@both
async def test_the_first_listed_model_is_used_where_none_is_set(
    provider: str, tmp_path: Path
) -> None:
    script = {**answers(HI), "models": ["listed-first", "listed-second"]}
    async with deployed(provider, tmp_path, script) as deployment:
        await deployment.log_in(over=False)
        async with deployment.agent(HERMES_MODEL="") as client:
            assert answer(await client.ask("hello")) == "Hi."
        assert [body["model"] for body in deployment.model.bodies] == ["listed-first"]


@both
async def test_doctor_says_whether_there_is_a_login(provider: str, tmp_path: Path) -> None:
    async with deployed(provider, tmp_path, answers(HI)) as deployment:
        environ = {
            "HERMES_NOUS_PORTAL_URL": deployment.server.url,
            "HERMES_CODEX_AUTH_URL": deployment.server.url,
            "HERMES_CODEX_BASE_URL": deployment.model.url,
        }

        async def told() -> str:
            settings = await asyncio.to_thread(load_settings, {"home": str(tmp_path)}, environ)
            found = await checks(settings)
            return "\n".join(f"{c.name} {c.verdict} {c.message}" for c in found)

        assert "model failed There is no login at" in await told()
        await deployment.log_in(over=False)
        await asyncio.to_thread((tmp_path / "auth.json").chmod, 0o644)
        said = await told()
        assert "login ok" in said
        assert "renewed by itself" in said
        assert "login note" in said
        assert "chmod 600" in said
        await deployment.log_in(over=True)
        deployment.server.end_all()
        assert f"run hermes login {provider}" in await told()
        said = await told()
        assert [secret for secret in deployment.server.issued if secret in said] == []


async def test_replicas_without_a_shared_disk_use_what_one_was_logged_in_with(
    tmp_path: Path, postgres_url: str
) -> None:
    """Logged in beside one of them with the command's own steps, and used by another."""
    homes = tmp_path / "one", tmp_path / "two"
    await asyncio.to_thread(lambda: [home.mkdir() for home in homes])
    async with deployed("codex", homes[0], answers(HI)) as deployment:
        shared = {"HERMES_DATABASE_URL": postgres_url, "HERMES_LOGIN_KEY": "k" * 32}
        environ = {"HERMES_HOME": str(homes[1]), "HERMES_CODEX_AUTH_URL": deployment.server.url}
        settings = await asyncio.to_thread(load_settings, {}, {**environ, **shared})
        steps = [step async for step in log_in(settings, "codex", HastyClock())]
        assert isinstance(steps[-1], LoggedIn)
        assert steps[-1].place == "the agent's database"
        async with deployment.agent(**shared) as client:
            assert answer(await client.ask("hello")) == "Hi."
        assert deployment.bearers()[0] in deployment.server.issued
        assert not await asyncio.to_thread(lambda: list(tmp_path.rglob("auth.*")))
        (check,) = [one for one in await checks(settings) if one.name == "login"]
        assert check.verdict is Verdict.OK
