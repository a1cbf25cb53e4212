"""Proxies of the environment that the Telegram library cannot use."""

import pytest

from gateway_service.accounts.checks import checks
from gateway_service.errors import AccountRefused
from gateway_service.platforms.telegram.platform import TelegramPlatform
from services.config.settings import load_settings
from services.runtime.checks import Verdict
from tests.fakes.telegram import TOKEN


@pytest.fixture(params=["socks4://127.0.0.1:9", "ftp://127.0.0.1:9"], autouse=True)
def proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", request.param)


async def test_a_proxy_that_cannot_be_used_is_named() -> None:
    with pytest.raises(AccountRefused, match="proxy that ALL_PROXY"):
        async with TelegramPlatform(TOKEN):
            pass


async def test_the_doctor_names_it_too() -> None:
    [check] = await checks(load_settings({}, {"TELEGRAM_BOT_TOKEN": TOKEN}))
    assert check.verdict is Verdict.FAILED
    assert "proxy that ALL_PROXY" in check.message
