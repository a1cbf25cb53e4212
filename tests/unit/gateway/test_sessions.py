"""Which messages share a session."""

import pytest
from msgspec.structs import replace

from gateway_service.chats.access import Access
from gateway_service.chats.sessions import client_key, is_shared, session_key
from gateway_service.config import BusyConfig, GatewayConfig, SessionResetConfig
from gateway_service.messages import Source

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
