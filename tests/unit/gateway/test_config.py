"""The gateway's settings."""

from pathlib import Path

import pytest

from gateway_service.accounts.builtin import builtin_platforms
from gateway_service.config import GatewayConfig
from gateway_service.messages import Source
from services.config.settings import ConfigError
from tests.unit.services.settings import settings

TOKEN = "123456:ABC-def_1"


def test_without_a_token_there_is_no_bot(tmp_path: Path) -> None:
    found = settings(tmp_path)
    config = found.load(GatewayConfig)
    assert not config.telegram.is_on
    assert builtin_platforms(config, found.home) == []


def test_a_token_is_enough_for_a_bot_that_nobody_may_talk_to(tmp_path: Path) -> None:
    environ = {"TELEGRAM_BOT_TOKEN": TOKEN}
    found = settings(tmp_path, environ=environ)
    config = found.load(GatewayConfig)
    [configured] = builtin_platforms(config, found.home)
    assert configured.platform.account_id == "123456"
    assert configured.access.is_closed
    assert TOKEN not in repr(config)


def test_automations_of_home_assistant_are_no_admins(tmp_path: Path) -> None:
    environ = {"HASS_TOKEN": "t" * 40, "HASS_ALLOWED_USERS": "homeassistant"}
    found = settings(tmp_path, environ=environ)
    [configured] = builtin_platforms(found.load(GatewayConfig), found.home)
    assert not configured.access.is_admin(Source("homeassistant", "x", user_id="homeassistant"))


def test_each_problem_is_told_by_itself_and_short_secrets_leave_it_readable(tmp_path: Path) -> None:
    environ = {"API_SERVER_KEY": "must", "API_SERVER_HOST": "0.0.0.0"}
    yaml = "platforms: {telegram: {enabled: true}}"
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, yaml, environ=environ).load(GatewayConfig)
    found = [problem.message for problem in caught.value.problems]
    assert found == [
        "API_SERVER_KEY must have at least 16 characters",
        "platforms.telegram is enabled; set TELEGRAM_BOT_TOKEN for it",
    ]


@pytest.mark.parametrize(
    ("environ", "is_open"),
    [
        ({"TELEGRAM_ALLOWED_USERS": " 7, 8 "}, False),
        ({"TELEGRAM_ALLOW_ALL_USERS": "true"}, True),
        ({"GATEWAY_ALLOW_ALL_USERS": "1"}, True),
    ],
)
def test_who_may_talk_to_it(tmp_path: Path, environ: dict[str, str], is_open: bool) -> None:
    found = settings(tmp_path, environ={"TELEGRAM_BOT_TOKEN": TOKEN, **environ})
    [configured] = builtin_platforms(found.load(GatewayConfig), found.home)
    assert configured.access.allow_all is is_open
    assert configured.access.allowed_users == (frozenset() if is_open else {"7", "8"})


def test_an_existing_home_names_its_bot_in_yaml(tmp_path: Path) -> None:
    yaml = f"platforms:\n  telegram:\n    token: {TOKEN}\n    extra: {{allowed_users: [7, 8]}}\n"
    config = settings(tmp_path, yaml).load(GatewayConfig)
    assert config.telegram.is_on
    assert config.telegram.allowed_users == ("7", "8")
    off = settings(tmp_path, yaml.replace("    token", "    enabled: false\n    token"))
    assert not off.load(GatewayConfig).telegram.is_on


@pytest.mark.parametrize(
    ("yaml", "advice"),
    [
        ("platforms: {telegram: {enabled: true}}", "set TELEGRAM_BOT_TOKEN"),
        ("platforms: {telegram: {token: secret-and-wrong}}", "must look like 123456:ABC-def"),
    ],
)
def test_what_cannot_work_is_said_at_the_start(tmp_path: Path, yaml: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, yaml).load(GatewayConfig)
    assert advice in str(caught.value)
    assert "secret-and-wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "advice"),
    [
        ({"API_SERVER_MCP_OWN_KEY": "too-short"}, "must have at least 16 characters"),
        (dict.fromkeys(("API_SERVER_KEY", "API_SERVER_MCP_READ_KEY"), "k" * 16), "of its own"),
    ],
)
def test_keys_of_the_mcp_server_cannot_be_guessed_or_mixed_up(
    tmp_path: Path, environ: dict[str, str], advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        settings(tmp_path, environ=environ).load(GatewayConfig)


@pytest.mark.parametrize(
    ("yaml", "environ", "expected"),
    [
        ("", {}, ("interrupt", "interrupt")),
        ("gateway: {busy_mode: queue, busy_modes: {telegram: steer}}", {}, ("steer", "queue")),
        ("gateway: {busy_mode: queue}", {"HERMES_BUSY_MODE": "steer"}, ("steer", "steer")),
        ("display: {busy_input_mode: queue}", {}, ("queue", "queue")),
    ],
)
def test_what_messages_do_to_the_work_in_progress(
    tmp_path: Path, yaml: str, environ: dict[str, str], expected: tuple[str, str]
) -> None:
    modes = settings(tmp_path, yaml=yaml, environ=environ).load(GatewayConfig).busy
    assert (modes.mode_for("telegram"), modes.mode_for("cli")) == expected
    with pytest.raises(ConfigError, match="busy_mode"):
        settings(tmp_path, yaml="gateway: {busy_mode: wait}").load(GatewayConfig)


@pytest.mark.parametrize(
    ("yaml", "environ", "expected"),
    [
        ("human_delay: {mode: off}", {}, (0.0, 0.0)),
        ("", {"HERMES_HUMAN_DELAY_MODE": "natural"}, (0.8, 2.5)),
        ("human_delay: {mode: custom, min_ms: 100, max_ms: 200}", {}, (0.1, 0.2)),
        ("human_delay: {mode: custom, min_ms: 4000}", {}, (4.0, 4.0)),
    ],
)
def test_the_pauses_of_an_answer(
    tmp_path: Path, yaml: str, environ: dict[str, str], expected: tuple[float, float]
) -> None:
    config = settings(tmp_path, yaml, environ=environ).load(GatewayConfig)
    assert config.pacing.range_s == expected
