"""Which messages share a session."""

import pytest

from gateway_service.authorization import Access
from gateway_service.messages import Source
from gateway_service.sessions import KeyPolicy, client_key, session_key

SHARED = KeyPolicy(per_user_in_groups=False)
OWN_THREADS = KeyPolicy(per_user_in_threads=True)


def source(chat_type: str, thread_id: str = "") -> Source:
    return Source("telegram", "42", thread_id, "7", "Ada", chat_type)


@pytest.mark.parametrize(
    ("said", "policy", "key"),
    [
        (source("dm"), KeyPolicy(), "agent:main:telegram:dm:42"),
        (source("dm", "9"), KeyPolicy(), "agent:main:telegram:dm:42:9"),
        (source("group"), KeyPolicy(), "agent:main:telegram:group:42:7"),
        (source("group"), SHARED, "agent:main:telegram:group:42"),
        (source("group", "9"), KeyPolicy(), "agent:main:telegram:group:42:9"),
        (source("group", "9"), OWN_THREADS, "agent:main:telegram:group:42:9:7"),
    ],
)
def test_keys_are_those_of_the_home(said: Source, policy: KeyPolicy, key: str) -> None:
    assert session_key(said, policy) == key


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
