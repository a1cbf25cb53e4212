"""Logins at both providers, over HTTP: the code, the tokens, their renewal, and what goes wrong."""

import asyncio
import json
import stat
import sys
import traceback
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_service.models.oauth.codex import OpenAICodex
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.http import fit_for_tokens
from agent_service.models.oauth.issuer import Issuer
from agent_service.models.oauth.nous import MODELS_URL, NousPortal
from agent_service.models.oauth.store import LoginFile, LoginStore
from agent_service.models.oauth.tokens import Login, LoginFailed, LoginNeeded, LoginUnavailable
from services.errors import FailedPrecondition
from tests.fakes.clock import HastyClock
from tests.fakes.logins import USER_CODE, FakeLogins, fake_logins

OLD_HOME: dict[str, Any] = {
    "version": 1,
    "active_provider": "openai-codex",
    "providers": {"other": {"api_key": "theirs"}},
    "credential_pool": {"openrouter": [{"label": "kept"}]},
}


@dataclass(frozen=True, slots=True)
class Parts:
    """A provider, its fake, and a home."""

    issuer: Issuer
    server: FakeLogins
    path: Path
    clock: HastyClock

    @property
    def store(self) -> LoginStore:
        return LoginStore(LoginFile(self.path))

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.issuer, self.store, self.clock)

    async def document(self) -> dict[str, Any]:
        return json.loads(await self.text())

    async def text(self) -> str:
        path = self.path
        return await asyncio.to_thread(lambda: path.read_text("latin-1") if path.exists() else "")

    async def write(self, document: Mapping[str, Any]) -> None:
        await self.put(json.dumps(document))

    async def put(self, text: str) -> None:
        await asyncio.to_thread(self.path.write_text, text, "latin-1")

    async def mode(self) -> int:
        return stat.S_IMODE((await asyncio.to_thread(self.path.stat)).st_mode)

    async def log_in(self) -> Login:
        asked = await self.issuer.begin()
        return await self.credentials.log_in(asked)


def issuer_of(name: str, clock: HastyClock, url: str) -> Issuer:
    return NousPortal(clock, url) if name == "nous" else OpenAICodex(clock, url)


@pytest.fixture(params=["nous", "codex"])
async def parts(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Parts]:
    clock = HastyClock()
    async with fake_logins(clock) as server:
        issuer = issuer_of(request.param, clock, server.url)
        yield Parts(issuer, server, tmp_path / "auth.json", clock)


@pytest.fixture
async def nous(tmp_path: Path) -> AsyncIterator[Parts]:
    clock = HastyClock()
    async with fake_logins(clock) as server:
        yield Parts(NousPortal(clock, server.url), server, tmp_path / "auth.json", clock)


async def test_a_code_that_is_confirmed_becomes_a_login_for_the_owner_alone(parts: Parts) -> None:
    parts.server.polls = ["authorization_pending", "authorization_pending"]
    asked = await parts.issuer.begin()
    assert asked.shown.user_code == USER_CODE
    assert asked.shown.url.startswith(parts.server.url)
    login = await parts.credentials.log_in(asked)
    assert parts.clock.slept == [1, 1, 1]
    assert await parts.mode() == 0o600
    assert await parts.credentials.current() == login
    assert login.renewable
    assert login.access.expires_at is not None


async def test_a_provider_that_fails_is_asked_again(parts: Parts) -> None:
    parts.server.polls = [500, 503, 429]
    login = await parts.log_in()
    assert login.renewable
    assert parts.clock.slept == [1, 6, 11, 16]


@pytest.mark.parametrize(
    ("answer", "said"), [("access_denied", "refused"), ("expired_token", "no longer good")]
)
async def test_a_code_that_is_refused_or_over_ends_the_login(
    parts: Parts, answer: str, said: str
) -> None:
    parts.server.polls = ["authorization_pending", answer]
    with pytest.raises(LoginFailed, match=said):
        await parts.log_in()
    assert await parts.text() == ""


async def test_codes_that_an_account_does_not_allow_are_explained(tmp_path: Path) -> None:
    clock = HastyClock()
    async with fake_logins(clock) as server:
        server.no_device_codes = True
        with pytest.raises(LoginFailed, match="security settings"):
            await OpenAICodex(clock, server.url).begin()


async def test_all_else_in_the_file_stays(parts: Parts) -> None:
    entry = {"label": "mine", "tokens": {"id_token": "kept"}}
    providers = {**OLD_HOME["providers"], parts.issuer.entry: entry}
    await parts.write({**OLD_HOME, "providers": providers})
    await asyncio.to_thread(parts.path.chmod, 0o644)
    await parts.log_in()
    found = await parts.document()
    assert found["credential_pool"] == OLD_HOME["credential_pool"]
    assert found["providers"]["other"] == {"api_key": "theirs"}
    assert found["providers"][parts.issuer.entry]["label"] == "mine"
    assert found["providers"][parts.issuer.entry]["tokens"]["id_token"] == "kept"
    assert await parts.mode() == 0o600
    await parts.credentials.forget()
    left = await parts.document()
    assert left["providers"] == {"other": {"api_key": "theirs"}}
    expected = None if parts.issuer.entry == "openai-codex" else "openai-codex"
    assert left["active_provider"] == expected


async def test_a_token_is_renewed_before_it_ends_and_the_new_one_is_kept(parts: Parts) -> None:
    first = await parts.log_in()
    await parts.clock.sleep(parts.server.token_s - 60)
    second = await parts.credentials.current()
    assert second.bearer.value != first.bearer.value
    assert second.refresh != first.refresh
    assert second.headers == first.headers
    assert await parts.credentials.current() == second
    assert parts.server.renewals == 1


async def test_a_refused_token_is_renewed_once_for_all_who_have_it(parts: Parts) -> None:
    first = await parts.log_in()
    one, two = parts.credentials, parts.credentials
    renewed = await asyncio.gather(
        *(each.instead_of(first.bearer.value) for each in (one, two, one, two))
    )
    assert len({login.bearer.value for login in renewed}) == 1
    assert renewed[0].bearer.value != first.bearer.value
    assert parts.server.renewals == 1


RENEW = """
import asyncio, sys
from pathlib import Path
from agent_service.models.oauth.codex import OpenAICodex
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.store import LoginFile
from agent_service.models.oauth.nous import MODELS_URL, NousPortal
from agent_service.models.oauth.store import LoginStore
from services.clock import SystemClock

async def main(name, url, path):
    clock = SystemClock()
    issuer = NousPortal(clock, url) if name == "nous" else OpenAICodex(clock, url)
    login = await Credentials(issuer, LoginStore(LoginFile(Path(path))), clock).current()
    print(login.bearer.value.get_secret_value())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["nous", "codex"])
async def test_processes_that_renew_at_once_do_it_once(name: str, tmp_path: Path) -> None:
    clock = HastyClock()
    async with fake_logins() as server:
        server.token_s = 60  # which is as good as over
        path = tmp_path / "auth.json"
        store = LoginStore(LoginFile(path))
        issuer = issuer_of(name, clock, server.url)
        await Credentials(issuer, store, clock).log_in(await issuer.begin())
        server.token_s = 3600
        command = (sys.executable, "-c", RENEW, name, server.url, str(path))
        running = [
            await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            for _ in range(3)
        ]
        printed = [(await process.communicate())[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len({*printed}) == 1
    assert server.renewals == 1


async def test_a_login_that_was_ended_says_how_to_log_in_and_is_not_tried_again(
    parts: Parts,
) -> None:
    login = await parts.log_in()
    parts.server.end_all()
    await parts.clock.sleep(2 * parts.server.token_s)
    for _ in range(2):
        with pytest.raises(LoginNeeded) as caught:
            await parts.credentials.current()
        assert caught.value.message.endswith(f"run hermes login {parts.issuer.name}")
        assert "\n" not in caught.value.message
    assert parts.server.renewals == 1
    assert login.refresh.get_secret_value() not in await parts.text()
    await parts.log_in()
    assert (await parts.credentials.current()).renewable


async def test_a_provider_that_fails_leaves_the_login_as_it_was(parts: Parts) -> None:
    await parts.log_in()
    await parts.clock.sleep(2 * parts.server.token_s)
    before = await parts.text()
    parts.server.failures = [503]
    with pytest.raises(LoginUnavailable, match=r"HTTP 503.*try again later"):
        await parts.credentials.current()
    assert await parts.text() == before
    assert (await parts.credentials.current()).renewable


async def test_no_token_is_in_what_is_raised_or_shown(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    login = await parts.log_in()
    texts = [repr(login), repr(parts.issuer), str(login)]
    await parts.clock.sleep(2 * parts.server.token_s)
    parts.server.failures = [503, 418]
    for _ in range(2):
        with pytest.raises((LoginUnavailable, LoginFailed)) as caught:
            await parts.credentials.current()
        texts.append("".join(traceback.format_exception(caught.value)))
    await parts.credentials.current()
    parts.server.end_all()
    with pytest.raises(LoginNeeded) as ended:
        await parts.credentials.instead_of((await parts.credentials.current()).bearer.value)
    texts += ["".join(traceback.format_exception(ended.value)), caplog.text]
    assert len(parts.server.issued) > 5
    shown = "".join(texts)
    assert [secret for secret in parts.server.issued if secret in shown] == []


async def test_logging_out_forgets_the_login(parts: Parts) -> None:
    login = await parts.log_in()
    found = await parts.credentials.forget()
    is_codex = parts.issuer.name == "codex"
    assert found == (True, is_codex)
    assert parts.server.revoked == ([login.refresh.get_secret_value()] if is_codex else [])
    with pytest.raises(LoginNeeded, match="There is no login"):
        await parts.credentials.current()
    assert await parts.credentials.forget() == (False, False)
    left = await parts.text()
    assert [secret for secret in parts.server.issued if secret in left] == []


@pytest.mark.parametrize("content", ["{", "[]", '{"providers": 1', "\xff"])
async def test_a_damaged_file_is_left_alone(parts: Parts, content: str) -> None:
    await parts.put(content)
    for attempt in (parts.credentials.current(), parts.log_in()):
        with pytest.raises(FailedPrecondition, match="damaged"):
            await attempt
    assert await parts.text() == content


async def test_a_login_of_an_older_home_serves(nous: Parts) -> None:
    """Its access token may only make keys."""
    nous.server.scope = "inference:mint_agent_key"
    nous.server.models_url = "https://models.example.org/v1"
    tokens = nous.server.tokens()
    access = nous.server.jwt({"scope": nous.server.scope, "sub": "person"})
    ends = "2026-01-05T13:00:00Z"
    entry = {**tokens, "access_token": access, "expires_at": ends, "scope": nous.server.scope}
    await nous.write({"providers": {"nous": entry}})
    login = await nous.credentials.current()
    assert login.bearer.value.get_secret_value().startswith("key-")
    assert nous.server.renewals == 0
    assert await nous.credentials.current() == login
    assert len(nous.server.at("/api/oauth/agent-key")) == 1
    await nous.clock.sleep(2 * nous.server.token_s)
    renewed = await nous.credentials.current()
    assert renewed.bearer.value != login.bearer.value
    assert (nous.server.renewals, len(nous.server.at("/api/oauth/agent-key"))) == (1, 2)
    assert renewed.base_url == "https://models.example.org/v1"


async def test_models_are_where_the_portal_says_unless_tokens_would_be_open_there(
    nous: Parts,
) -> None:
    nous.server.models_url = "https://models.example.org/v1/"
    assert (await nous.log_in()).base_url == "https://models.example.org/v1"
    nous.server.models_url = "http://models.example.org/v1"
    assert (await nous.log_in()).base_url == MODELS_URL


@pytest.mark.parametrize(
    ("url", "fit"),
    [
        ("https://portal.example.org", True),
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080", True),
        ("http://portal.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("ftp://portal.example.org", False),
        ("https://", False),
        ("https://[", False),
        ("", False),
    ],
)
def test_tokens_go_nowhere_where_others_can_read_them(url: str, fit: bool) -> None:
    assert fit_for_tokens(url) is fit


async def test_a_renewal_that_nobody_waits_for_any_more_is_kept(parts: Parts) -> None:
    first = await parts.log_in()
    asking = asyncio.create_task(parts.credentials.instead_of(first.bearer.value))
    await parts.server.until(lambda: parts.server.renewals > 0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    second = await parts.credentials.current()
    assert second.refresh != first.refresh
    await parts.credentials.instead_of(second.bearer.value)
    assert parts.server.renewals == 2
