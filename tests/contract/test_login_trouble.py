"""A login server that is down, or talks too much, and what becomes of calls meanwhile."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from agent_service.assembly.models import credentials
from agent_service.config import AgentConfig
from agent_service.models.access import AtLogin
from agent_service.models.oauth.codex import OpenAICodex
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.nous import NousPortal
from agent_service.models.oauth.store import LoginFile, LoginStore
from agent_service.models.oauth.tokens import Login, LoginFailed, LoginUnavailable, Token
from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.records.model_errors import RetryPolicy
from services.cli.startup import logged
from services.config.settings import load_settings
from tests.contract.models import QUICK_RETRIES, endpoint_at
from tests.fakes.clock import HastyClock
from tests.fakes.logins import FakeLogins, fake_logins
from tests.fakes.model import FakeModel, answers, fake_model
from tests.fakes.web import site

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """A home that is logged in, and the login server."""

    server: FakeLogins
    credentials: Credentials
    clock: HastyClock
    tokens: Mapping[str, Any]

    @asynccontextmanager
    async def calling(
        self, *replies: Mapping[str, Any], retries: RetryPolicy = QUICK_RETRIES
    ) -> AsyncGenerator[tuple[Provider, FakeModel]]:
        async with fake_model(answers(*replies)) as model:
            endpoint = endpoint_at(model.url)
            access = AtLogin(endpoint, self.credentials)
            async with Provider(endpoint, ChatCompletions(), retries, access=access) as provider:
                yield provider, model


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    clock = HastyClock()
    async with fake_logins(clock) as server:
        tokens = server.tokens()
        path = tmp_path / "auth.json"
        document = {"providers": {"openai-codex": {"tokens": tokens}}}
        await asyncio.to_thread(path.write_text, json.dumps(document))
        issuer = OpenAICodex(clock, server.url)
        yield Home(server, Credentials(issuer, LoginStore(LoginFile(path)), clock), clock, tokens)


async def test_a_token_serves_to_its_end_while_it_cannot_be_renewed(home: Home) -> None:
    await home.clock.sleep(home.server.token_s - 60)
    home.server.failures = [503, 503]
    login = await home.credentials.current()
    assert login.bearer.value.get_secret_value() == home.tokens["access_token"]
    await home.clock.sleep(61)
    with pytest.raises(LoginUnavailable):
        await home.credentials.current()
    assert (await home.credentials.current()).bearer.value != login.bearer.value
    assert home.server.renewals == 3


async def test_a_token_that_is_refused_is_not_used_again_though_it_cannot_be_renewed(
    home: Home,
) -> None:
    login = await home.credentials.current()
    home.server.failures = [503]
    with pytest.raises(LoginUnavailable):
        await home.credentials.instead_of(login.bearer.value)


async def test_the_log_and_the_agent_hide_tokens_also_as_they_are_renewed(
    home: Home, tmp_path: Path
) -> None:
    environ = {"HERMES_CODEX_AUTH_URL": home.server.url}
    settings = await asyncio.to_thread(load_settings, {"home": str(tmp_path)}, environ)
    await home.clock.sleep(home.server.token_s)
    path = tmp_path / "hermes.log"
    store = LoginStore(LoginFile(settings.home.auth), settings.redactor())
    logins = credentials(store, settings.load(AgentConfig), home.clock)
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, logged(settings, "hermes", path))
        before = home.tokens["refresh_token"]
        _log.warning("before %s", before)
        assert before not in settings.redactor().redact(f"with {before}")
        after = (await logins("codex").current()).refresh.get_secret_value()
        _log.warning("after %s", after)
        assert after not in settings.redactor().redact(f"with {after}")
        await asyncio.to_thread(stack.close)
    said = await asyncio.to_thread(path.read_text)
    assert "before [" in said
    assert "after [" in said
    assert after != before
    assert before not in said
    assert after not in said


SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "hexadecimal": lambda token: token.encode().hex(),
    "base64": lambda token: base64.b64encode(b"1:" + token.encode()).decode(),
}
SECRET = "rt_made/up+for=this.test"


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("provider", ["nous", "codex", "key of nous"])
async def test_what_a_login_server_repeats_of_a_token_is_not_said(
    provider: str, spelling: str
) -> None:
    async def repeat(request: web.Request) -> web.StreamResponse:
        assert SECRET in (await request.text() + str(request.headers))
        said = f"refresh_token {SPELLINGS[spelling](SECRET)} is malformed"
        return web.json_response({"error": "invalid", "error_description": said}, status=400)

    clock, token = HastyClock(), SecretStr(SECRET)
    login = Login(Token(), token)
    if provider == "key of nous":
        login = Login(Token(token), wants_key=True)
    async with site(repeat) as server:
        url = server.url("127.0.0.1")
        issuer = OpenAICodex(clock, url) if provider == "codex" else NousPortal(clock, url)
        with pytest.raises(LoginFailed) as caught:
            await anext(issuer.renewals(login, refused=False))
    said = caught.value.message
    assert "says no: refresh_token " in said
    assert said.endswith("is malformed")
    assert SPELLINGS[spelling](SECRET)[6:-6] not in said
