"""The error tree, its table, and the way over the wire and back."""

from typing import cast

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from hermes.common.v1 import error_pb2
from services import errors
from services.errors import (
    DETAILS_KEY,
    Draining,
    FailedPrecondition,
    HermesError,
    InvalidArgument,
    NotFound,
    Reason,
    ServiceUnavailable,
    details_of,
    is_passing,
    message_of,
    reason_of,
    to_status,
)

PREFIX = "ERROR_REASON_"


def tree() -> list[type[HermesError]]:
    values = vars(errors).values()
    return [kind for kind in values if isinstance(kind, type) and issubclass(kind, HermesError)]


def received(
    code: grpc.StatusCode, details: str = "", *trailing: tuple[str, str | bytes]
) -> grpc.aio.AioRpcError:
    metadata = grpc.aio.Metadata(*trailing)
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details, None)


def sent(error: HermesError) -> grpc.aio.AioRpcError:
    status = to_status(error)
    trailing = (DETAILS_KEY, status.SerializeToString())
    return received(error.reason.status, status.message, trailing)


def test_the_reasons_are_those_of_the_contract() -> None:
    contract = {name.removeprefix(PREFIX) for name in error_pb2.ErrorReason.keys()}  # noqa: SIM118
    assert {reason.value for reason in Reason} == contract - {"UNSPECIFIED"}
    assert all(reason.name == reason.value for reason in Reason)


def test_what_cannot_succeed_by_itself_is_not_retried() -> None:
    retried = {reason for reason in Reason if reason.status is grpc.StatusCode.UNAVAILABLE}
    assert retried == {
        Reason.DRAINING,
        Reason.DATABASE_UNAVAILABLE,
        Reason.SERVICE_UNAVAILABLE,
        Reason.MODEL_UNAVAILABLE,
    }


@pytest.mark.parametrize("kind", tree(), ids=lambda kind: kind.__name__)
def test_each_error_arrives_as_it_was_sent(kind: type[HermesError]) -> None:
    sent_details = details_of(sent(kind("what happened", metadata={"id": "trn_1"})))
    assert sent_details.reason is kind.default_reason
    assert sent_details.message == "what happened"
    assert sent_details.metadata == {"id": "trn_1"}
    assert sent_details.retry_after_s is None
    assert sent_details.fields == {}


def test_the_details_are_those_that_other_languages_read() -> None:
    error = InvalidArgument("bad", fields={"schedule": "is empty"}, metadata={"a": "b"})
    status = rpc_status.from_call(cast("grpc.Call", sent(error)))
    assert isinstance(status, status_pb2.Status)
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (info.domain, info.reason, dict(info.metadata)) == (
        "hermes",
        "INVALID_ARGUMENT",
        {"a": "b"},
    )
    assert bad.field_violations[0].field == "schedule"
    assert error_pb2.ErrorReason.Value(PREFIX + info.reason) == 2


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ServiceUnavailable("away"), True),
        (Draining("ends"), True),
        (FailedPrecondition("not yet", retry_after_s=0), True),
        (FailedPrecondition("never"), False),
        (NotFound("none"), False),
    ],
)
def test_what_may_be_tried_again_is_what_nobody_served_or_what_has_a_time(
    error: HermesError, passes: bool
) -> None:
    assert is_passing(sent(error)) is passes


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, Reason.SERVICE_UNAVAILABLE),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Reason.SERVICE_UNAVAILABLE),
        (grpc.StatusCode.CANCELLED, Reason.SERVICE_UNAVAILABLE),
        (grpc.StatusCode.UNIMPLEMENTED, Reason.INTERNAL),
        (grpc.StatusCode.NOT_FOUND, Reason.INTERNAL),
    ],
)
def test_a_status_without_details_says_what_the_transport_knows(
    code: grpc.StatusCode, reason: Reason
) -> None:
    assert reason_of(received(code, "connection refused")) is reason
    assert "connection refused" in message_of(received(code, "connection refused"))
    assert message_of(received(code)) != ""


def test_a_stream_that_ends_while_it_is_written_to_was_cut() -> None:
    error = received(grpc.StatusCode.INTERNAL, "Internal error from Core")
    assert reason_of(error) is Reason.SERVICE_UNAVAILABLE
    assert reason_of(received(grpc.StatusCode.INTERNAL, "a bug")) is Reason.INTERNAL


def test_a_reason_of_a_later_version_is_internal() -> None:
    status = status_pb2.Status(code=5, message="m")
    info = error_details_pb2.ErrorInfo(domain="hermes", reason="NOT_YET", metadata={"a": "b"})
    status.details.add().Pack(info)
    error = received(grpc.StatusCode.NOT_FOUND, "m", (DETAILS_KEY, status.SerializeToString()))
    assert (reason_of(error), details_of(error).metadata) == (Reason.INTERNAL, {"a": "b"})
