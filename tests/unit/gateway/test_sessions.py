"""Sessions of chats: their keys and when they end."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from gateway_service.chats.access import Access
from gateway_service.chats.sessions import client_key, is_shared, session_key
from gateway_service.config import BusyConfig, GatewayConfig, Mode, ResetPolicy, SessionResetConfig
from gateway_service.messages import Source
from services.config.settings import load_settings

USUAL = GatewayConfig(session_reset=SessionResetConfig(), busy=BusyConfig())
SHARED = USUAL.model_copy(update={"group_sessions_per_user": False})
OWN_THREADS = USUAL.model_copy(update={"thread_sessions_per_user": True})


def source(chat_type: str, thread_id: str = "") -> Source:
    return Source("telegram", "42", thread_id, "7", "Ada", chat_type)


@pytest.mark.parametrize(
    ("said", "config", "key"),
    [
        (source("dm"), USUAL, "agent:main:telegram:dm:42"),
        (source("dm", "9"), USUAL, "agent:main:telegram:dm:42:9"),
        (source("group"), USUAL, "agent:main:telegram:group:42:7"),
        (source("group"), SHARED, "agent:main:telegram:group:42"),
        (source("group", "9"), USUAL, "agent:main:telegram:group:42:9"),
        (source("group", "9"), OWN_THREADS, "agent:main:telegram:group:42:9:7"),
    ],
)
def test_keys_are_those_of_the_home(said: Source, config: GatewayConfig, key: str) -> None:
    assert session_key(replace(said, is_shared=is_shared(said, config))) == key


def test_a_client_is_its_own_chat() -> None:
    assert client_key("20260101_101500_abcdef") == "agent:main:cli:dm:20260101_101500_abcdef"


def test_nobody_may_talk_unless_somebody_says_so() -> None:
    nobody = Access()
    assert nobody.is_closed
    assert not nobody.allows(source("dm"))
    assert not nobody.allows(Source("telegram", "42"))
    assert Access(frozenset({"7"})).allows(source("dm"))
    assert not Access(frozenset({"77"})).allows(source("dm"))
    assert not Access(frozenset({""})).allows(Source("telegram", "42"))
    assert Access(allow_all=True).allows(source("group"))


def _policy(mode: Mode, at_hour: int = 4, zone: str = "Europe/Berlin") -> ResetPolicy:
    return ResetPolicy(mode, at_hour, timedelta(hours=24), ZoneInfo(zone))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("policy", "last_used", "first_due"),
    [
        (_policy(Mode.IDLE), "2026-01-05T12:00+01:00", "2026-01-06T12:00+01:00"),
        # An hour is as long as ever when clocks change.
        (_policy(Mode.IDLE), "2026-03-28T12:00+01:00", "2026-03-29T13:00+02:00"),
        (_policy(Mode.DAILY), "2026-01-05T12:00+01:00", "2026-01-06T04:00+01:00"),
        (_policy(Mode.DAILY), "2026-01-06T03:59+01:00", "2026-01-06T04:00+01:00"),
        (_policy(Mode.DAILY), "2026-01-06T04:00+01:00", "2026-01-07T04:00+01:00"),
        (_policy(Mode.DAILY, 0), "2026-01-05T23:59+01:00", "2026-01-06T00:00+01:00"),
        (_policy(Mode.DAILY), "2026-03-28T12:00+01:00", "2026-03-29T04:00+02:00"),
        # 2:00 to 3:00 is leapt over: the moment of the leap.
        (_policy(Mode.DAILY, 2), "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        # 2:00 to 3:00 comes twice: the first time, and then not again.
        (_policy(Mode.DAILY, 2), "2026-10-24T12:00+02:00", "2026-10-25T02:00+02:00"),
        (_policy(Mode.DAILY, 2), "2026-10-25T02:30+02:00", "2026-10-26T02:00+01:00"),
        (_policy(Mode.DAILY, 2), "2026-10-25T02:30+01:00", "2026-10-26T02:00+01:00"),
        # Midnight is leapt over in Beirut, and a whole day was in Apia.
        (_policy(Mode.DAILY, 0, "Asia/Beirut"), "2026-03-28T12:00+02:00", "2026-03-29T01:00+03:00"),
        (
            _policy(Mode.DAILY, 4, "Pacific/Apia"),
            "2011-12-29T12:00-10:00",
            "2011-12-31T04:00+14:00",
        ),
        (
            _policy(Mode.DAILY, 4, "America/New_York"),
            "2026-03-07T12:00-05:00",
            "2026-03-08T04:00-04:00",
        ),
        (_policy(Mode.BOTH), "2026-01-05T12:00+01:00", "2026-01-06T04:00+01:00"),
        (_policy(Mode.BOTH, 13), "2026-01-05T12:00+01:00", "2026-01-05T13:00+01:00"),
    ],
)
def test_a_session_ends_at_its_time_and_no_second_before(
    policy: ResetPolicy, last_used: str, first_due: str
) -> None:
    used, due = _at(last_used), _at(first_due)
    before, then = policy.cutoff(due - timedelta(seconds=1)), policy.cutoff(due)
    assert before is not None
    assert then is not None
    assert before <= used < then


def test_none_ends_nothing() -> None:
    assert _policy(Mode.NONE).cutoff(_at("2099-01-01T00:00+00:00")) is None


def test_the_day_is_named_where_both_have_come() -> None:
    used, now = _at("2026-01-05T03:00+01:00"), _at("2026-01-06T05:00+01:00")
    assert _policy(Mode.BOTH).why(used, now) is Mode.DAILY
    assert _policy(Mode.IDLE).why(used, now) is Mode.IDLE


def test_a_platform_may_differ(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "config.yaml").write_text(
        "timezone: Asia/Tokyo\n"
        "session_reset: {mode: both, at_hour: 5, idle_minutes: 60,"
        " platforms: {telegram: {mode: off}, memory: {idle_minutes: 5}}}\n"
    )
    config = load_settings({"home": str(home)}, {"HOME": str(home)}).load(GatewayConfig)
    usual, own, off = (
        config.session_reset.policy_for(name, config.zone)
        for name in ("discord", "memory", "telegram")
    )
    assert (usual.mode, usual.at_hour, usual.idle) == (Mode.BOTH, 5, timedelta(hours=1))
    assert str(usual.zone) == "Asia/Tokyo"
    assert (own.mode, own.at_hour, own.idle) == (Mode.BOTH, 5, timedelta(minutes=5))
    assert off.mode is Mode.NONE
