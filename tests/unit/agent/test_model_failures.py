"""Which failure is which, and what the user reads about it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from agent_service.models.endpoints import Endpoint
from agent_service.models.failures import (
    connection_failure,
    http_failure,
    retry_after_s,
    stream_failure,
)
from agent_service.models.wires.chat_completions import Assembly
from agent_service.models.wires.messages_reader import MessagesReading
from agent_service.models.wires.responses_reader import ResponsesReading
from agent_service.models.wires.wire import Reading
from agent_service.records.model_errors import ModelErrorKind as Kind
from agent_service.records.model_errors import RetryPolicy

ENDPOINT = Endpoint(
    "https://user:password@models.example/v1?key=hidden",
    SecretStr("sk-0123456789"),
    "m",
    "custom",
    "test",
    "HERMES_API_KEY",
)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, Kind.BAD_REQUEST, "rejected the request (HTTP 400)"),
        (401, Kind.AUTH, "check HERMES_API_KEY"),
        (402, Kind.BILLING, "top it up"),
        (403, Kind.AUTH, "check HERMES_API_KEY"),
        (404, Kind.NO_SUCH_MODEL, "has no model m"),
        (408, Kind.TIMEOUT, "took too long"),
        (413, Kind.CONTEXT_OVERFLOW, "new session"),
        (429, Kind.RATE_LIMIT, "limits requests"),
        (500, Kind.OVERLOADED, "try again later"),
        (529, Kind.OVERLOADED, "HTTP 529"),
    ],
)
def test_an_error_says_what_to_do(status: int, kind: Kind, advice: str) -> None:
    failed = http_failure(ENDPOINT, "m", status, {}, {"error": {"message": "so it is"}})
    assert (failed.kind, failed.status, failed.detail) == (kind, status, "so it is")
    assert advice in str(failed)


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        # the words of OpenAI, OpenRouter, Anthropic, Google, llama.cpp, vLLM, DeepSeek
        (400, "Your input exceeds the context window of this model", None, Kind.CONTEXT_OVERFLOW),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", None, Kind.CONTEXT_OVERFLOW),
        (400, "Please reduce the length of the messages", None, Kind.CONTEXT_OVERFLOW),
        (400, "too big", "exceed_context_size_error", Kind.CONTEXT_OVERFLOW),
        (400, "input length and `max_tokens` exceed context limit", None, Kind.CONTEXT_OVERFLOW),
        (400, "max_tokens: 128000 > 64000, which is the maximum", None, Kind.BAD_REQUEST),
        (400, "Your credit balance is too low to access the API.", None, Kind.BILLING),
        (500, "the request exceeds the available context size", None, Kind.CONTEXT_OVERFLOW),
        (400, "glm is not a valid model ID", None, Kind.NO_SUCH_MODEL),
        (400, "Model Not Exist", "invalid_request_error", Kind.NO_SUCH_MODEL),
        (400, "Invalid model: mistral", None, Kind.NO_SUCH_MODEL),
        (400, "blocked", "content_policy_violation", Kind.CONTENT_POLICY),
        (
            403,
            "Your chosen model requires moderation and your input was flagged",
            403,
            Kind.CONTENT_POLICY,
        ),
        (400, "API key not valid. Please pass a valid API key.", 400, Kind.AUTH),
        (402, "Insufficient Balance", None, Kind.BILLING),
        (403, "Insufficient credits", None, Kind.BILLING),
        (429, "You exceeded your current quota", "insufficient_quota", Kind.BILLING),
        (422, "messages: extra fields not permitted", None, Kind.BAD_REQUEST),
    ],
)
def test_providers_words_are_understood(
    status: int, message: str, code: object, kind: Kind
) -> None:
    body = {"message": message, "code": code}
    failed = http_failure(ENDPOINT, "m", status, {}, body)
    assert failed.kind is kind
    assert message in str(failed)


def test_a_cap_on_the_output_that_is_too_large_is_no_overflow() -> None:
    said = (
        "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum "
        "context length is 8192 tokens and your request has 20 input tokens"
    )
    failed = http_failure(ENDPOINT, "m", 400, {}, {"error": {"message": said}})
    assert failed.kind is Kind.BAD_REQUEST
    assert "lower model.max_tokens" in str(failed)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"error": {"message": "in an object"}}, "in an object"),
        ({"error": "a string"}, "a string"),
        ({"message": "without a wrapper"}, "without a wrapper"),
        ({"detail": [{"msg": "a list"}]}, "a list"),
        ({"detail": [{"loc": ["body", "n"], "msg": "Field required"}]}, "body.n: Field required"),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "login fail"),
        (
            {"error": {"message": "Provider error", "metadata": {"raw": "no"}}},
            "Provider error (no)",
        ),
        ({"error": "Unauthorized", "message": "the words"}, "the words"),
        ({"errors": [{"code": 10000, "message": "in a list"}]}, "in a list"),
        ([{"error": {"message": "a list"}}], "a list"),
        ({"errors": ["texts"]}, "texts"),
        ({"error": "invalid_token", "error_description": "expired"}, "expired"),
        ({"fault": {"faultstring": "odd"}}, '{"fault": {"faultstring": "odd"}}'),
        ('{"error": {"message": "JSON in a text"}}', "JSON in a text"),
        ('data: {"error": {"message": "an event"}}\n\n', "an event"),
        ("<!DOCTYPE html><html><head><title>502 Bad Gateway</title>", "502 Bad Gateway"),
        ("plain text", "plain text"),
        (None, ""),
        ([1, 2], ""),
        ({"error": {"message": "two\nlines\x1b[31m of\tnoise"}}, "two lines [31m of noise"),
        ({"error": "key sk-0123456789!"}, "key [key]!"),
        ({"error": "key 736b2d30313233343536373839!"}, "key [REDACTED]!"),
    ],
)
def test_the_providers_words_are_found_and_cleaned(body: object, detail: str) -> None:
    assert http_failure(ENDPOINT, "m", 400, {}, body).detail == detail


def test_messages_stay_short_and_show_no_credentials() -> None:
    failed = http_failure(ENDPOINT, "m", 500, {}, {"error": "x" * 10_000})
    assert len(str(failed)) < 500
    for text in (str(failed), str(connection_failure(ENDPOINT, "refused"))):
        assert "https://models.example/v1" in text
        assert "password" not in text
        assert "hidden" not in text


def test_without_a_key_one_is_asked_for() -> None:
    keyless = Endpoint("http://h/v1", SecretStr(""), "m", "custom", "test", "HERMES_API_KEY")
    assert "wants a key: set HERMES_API_KEY" in str(http_failure(keyless, "m", 401, {}, None))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:35 GMT"}, 30.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds


def test_pauses_grow_to_a_limit_and_vary() -> None:
    policy = RetryPolicy(max_retries=8, first_delay_s=1.0, longest_delay_s=10.0)
    error = connection_failure(ENDPOINT, "refused")
    for attempt, full in enumerate((1, 2, 4, 8, 10, 10, 10, 10), start=1):
        delays = {policy.delay_s(attempt, error) for _ in range(20)}
        assert len(delays) > 1
        assert all(delay is not None and full / 2 <= delay <= full for delay in delays)
    assert policy.delay_s(9, error) is None


CHAT, MESSAGES, RESPONSES = Assembly(), MessagesReading(), ResponsesReading()


def failed(code: str) -> dict[str, Any]:
    """The event of a response that has failed."""
    error = {"code": code, "message": "its words"}
    return {"type": "response.failed", "response": {"status": "failed", "error": error}}


def error(**fields: object) -> dict[str, Any]:
    return {"type": "error", "error": {**fields, "message": "its words"}}


def minimax(code: int) -> dict[str, Any]:
    return {"choices": None, "base_resp": {"status_code": code, "status_msg": "its words"}}


@pytest.mark.parametrize(
    ("reading", "chunk", "kind"),
    [
        (CHAT, error(code=429), Kind.RATE_LIMIT),
        (CHAT, minimax(1002), Kind.RATE_LIMIT),
        (CHAT, minimax(1004), Kind.AUTH),
        (CHAT, minimax(1008), Kind.BILLING),
        (MESSAGES, error(type="overloaded_error"), Kind.OVERLOADED),
        (MESSAGES, error(type="billing_error"), Kind.BILLING),
        (MESSAGES, error(type="brand_new_error"), Kind.OVERLOADED),
        (RESPONSES, failed("server_is_overloaded"), Kind.OVERLOADED),
        (RESPONSES, failed("insufficient_quota"), Kind.BILLING),
        (RESPONSES, failed("context_length_exceeded"), Kind.CONTEXT_OVERFLOW),
        (RESPONSES, failed("invalid_prompt"), Kind.BAD_REQUEST),
        (
            RESPONSES,
            {"type": "error", "code": "rate_limit_exceeded", "message": "its words"},
            Kind.RATE_LIMIT,
        ),
    ],
)
def test_an_error_inside_a_stream_keeps_its_kind(
    reading: Reading, chunk: dict[str, Any], kind: Kind
) -> None:
    failure = stream_failure(ENDPOINT, "m", reading.failure(chunk))
    assert (failure.kind, failure.detail) == (kind, "its words")


def test_what_reports_success_in_the_form_of_an_error_is_none() -> None:
    assert CHAT.failure({"choices": [], "base_resp": {"status_code": 0}}) is None
