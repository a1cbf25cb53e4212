"""What the server does around each call, seen by a client on its socket and one in its process."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from hermes.executor.v1 import exec_pb2, exec_pb2_grpc, file_pb2, file_pb2_grpc
from services.errors import Reason, details_of, reason_of
from services.rpc.auth import Authenticator, Gate, Identity
from services.rpc.channels import Channels
from services.rpc.in_process import InProcessChannel, InProcessServer
from services.rpc.interceptors import CallPipeline
from services.rpc.streams import open_stream
from services.telemetry.logs import bind
from tests.fakes.component import Running, Sample, running, turns
from tests.support.executors import until

TOKEN = (("authorization", "Bearer secret"),)
TRANSPORTS = pytest.mark.parametrize("transport", ["socket", "in process"])


@pytest_asyncio.fixture(params=["socket", "in process"])
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Running, None]:
    async with running(tmp_path, beside=request.param == "in process") as started:
        yield started


async def get_turn(channels: Channels, turn_id: str, **options: Any) -> turn_pb2.GetTurnResponse:
    return await turns(channels).GetTurn(turn_pb2.GetTurnRequest(turn_id=turn_id), **options)


async def failure(call: Awaitable[object]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_all_four_kinds_of_call_are_served_and_counted(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.channels() as channels:
        await get_turn(channels, "any")
        watch = turns(channels).WatchTurn(turn_pb2.WatchTurnRequest(after_sequence=1))
        assert [message.events[0].sequence async for message in watch] == [2, 3]
        execs = exec_pb2_grpc.ExecServiceStub(channels.to("agent"))
        attach = execs.AttachExec(requests(exec_pb2.AttachExecRequest(), 2))
        assert [message.stdin_ack_offset async for message in attach] == [1, 2]
        files = file_pb2_grpc.FileServiceStub(channels.to("agent"))
        header = file_pb2.UploadFileRequest(header=file_pb2.UploadFileRequest.Header())
        await files.UploadFile(requests(header, 3))
        download = files.DownloadFile(file_pb2.DownloadFileRequest(length_bytes=2))
        assert [message.chunk async for message in download] == [b"x", b"x"]
    methods = ["GetTurn", "WatchTurn", "AttachExec", "UploadFile", "DownloadFile"]
    assert served.counter.calls == [(method, "OK") for method in methods]
    assert served.counter.begun == methods
    assert "failed" not in caplog.text


async def test_an_error_is_the_same_on_the_other_side(served: Running) -> None:
    async with served.channels() as channels:
        missing = details_of(await failure(get_turn(channels, "missing")))
        malformed = details_of(await failure(get_turn(channels, "malformed")))
        limited = await failure(get_turn(channels, "limited"))
    assert (missing.reason, missing.message) == (Reason.NOT_FOUND, "there is no such turn")
    assert missing.metadata == {"turn_id": "missing"}
    assert malformed.fields == {"turn_id": "is malformed"}
    assert limited.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details_of(limited).retry_after_s == 1.5
    statuses = [status for _, status in served.counter.calls]
    assert statuses == ["NOT_FOUND", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]


async def test_an_error_in_a_stream_comes_after_its_messages(served: Running) -> None:
    async with served.channels() as channels:
        files = file_pb2_grpc.FileServiceStub(channels.to("agent"))
        request = file_pb2.DownloadFileRequest(path="missing", length_bytes=2)
        messages = aiter(files.DownloadFile(request))
        chunks = [await anext(messages), await anext(messages)]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(messages)
        upload = await failure(files.UploadFile(requests(file_pb2.UploadFileRequest(), 1)))
    assert [message.chunk for message in chunks] == [b"x", b"x"]
    assert reason_of(caught.value) is Reason.NOT_FOUND
    assert reason_of(upload) is Reason.INVALID_ARGUMENT


async def test_a_bug_shows_a_request_id_and_nothing_else(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.channels() as channels:
        error = await failure(get_turn(channels, "bug"))
        watch = turns(channels).WatchTurn(turn_pb2.WatchTurnRequest(turn_id="bug"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [message async for message in watch]
    for failed in (error, caught.value):
        details = details_of(failed)
        assert failed.code() is grpc.StatusCode.INTERNAL
        assert details.reason is Reason.INTERNAL
        assert details.metadata["request_id"] in details.message
        assert details.metadata["request_id"] in caplog.text
        assert "swordfish" not in repr(failed)
    assert caplog.text.count("ZeroDivisionError: the password is swordfish") == 2


async def test_the_ids_of_the_work_reach_the_logs_of_the_other_side(served: Running) -> None:
    async with served.channels() as channels:
        with bind(turn_id="trn_1", request_id="req_1"):
            await get_turn(channels, "any")
        forged = (("x-hermes-turn-id", "a b"), ("x-request-id", "x" * 81))
        await get_turn(channels, "any", metadata=forged)
        await get_turn(channels, "any")
    sent, dropped, none = served.seen.ids
    assert sent == {"turn_id": "trn_1", "request_id": "req_1", "service": "agent"}
    assert set(dropped) == set(none) == {"request_id", "service"}
    assert dropped["request_id"].startswith("req_")
    assert len({ids["request_id"] for ids in served.seen.ids}) == 3


async def test_a_service_that_another_one_needs_is_a_reason_to_come_again(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.channels() as channels:
        stub = turns(channels)
        details = details_of(await failure(stub.GetTurn(turn_pb2.GetTurnRequest(turn_id="alone"))))
    assert details.reason is Reason.SERVICE_UNAVAILABLE
    assert "10.0.0.1" not in details.message
    assert "10.0.0.1" in caplog.text


async def test_what_a_servicer_leaves_out_is_unimplemented(served: Running) -> None:
    async with served.channels() as channels:
        request = turn_pb2.InterruptTurnRequest()
        error = await failure(turns(channels).InterruptTurn(request))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_each_method_has_its_callers(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.channels(Identity.AGENT) as channels:
        await get_turn(channels, "any")
        denied = await failure(turns(channels).StartTurn(turn_pb2.StartTurnRequest()))
        watch = turns(channels).WatchTurn(turn_pb2.WatchTurnRequest())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [message async for message in watch]
    assert served.seen.callers == [Identity.AGENT]
    assert reason_of(denied) is reason_of(caught.value) is Reason.PERMISSION_DENIED
    assert denied.code() is grpc.StatusCode.PERMISSION_DENIED
    assert served.seen.ended == []
    audit = [record.getMessage() for record in caplog.records if "denied" in record.getMessage()]
    assert len(audit) == 2
    assert "TurnService/StartTurn" in audit[0]
    assert "identity agent" in audit[0]


async def test_a_method_without_a_rule_is_refused(served: Running) -> None:
    async with served.channels() as channels:
        execs = exec_pb2_grpc.ExecServiceStub(channels.to("agent"))
        error = await failure(execs.StartExec(exec_pb2.StartExecRequest()))
    assert reason_of(error) is Reason.PERMISSION_DENIED


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer ", "Basic wrong"])
async def test_without_a_valid_token_nothing_is_said(
    served: Running, caplog: pytest.LogCaptureFixture, authorization: str | None
) -> None:
    metadata = [("authorization", authorization)] if authorization is not None else []
    async with grpc.aio.insecure_channel(str(served.address)) as channel:
        stub = turn_pb2_grpc.TurnServiceStub(channel)
        call = stub.GetTurn(turn_pb2.GetTurnRequest(turn_id="missing"), metadata=metadata)
        error = await failure(call)
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert reason_of(error) is Reason.UNAUTHENTICATED
    assert served.seen.callers == []
    assert "denied" in caplog.text
    assert "call_denied" in {vars(each).get("audit") for each in caplog.records}
    assert "wrong" not in caplog.text


async def test_a_probe_needs_no_identity_but_a_watcher_does(served: Running) -> None:
    async with grpc.aio.insecure_channel(str(served.address)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "sample"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        unknown = await failure(health.Check(health_pb2.HealthCheckRequest(service="nobody")))
        watch = health.Watch(health_pb2.HealthCheckRequest())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [message async for message in watch]
    assert unknown.code() is grpc.StatusCode.NOT_FOUND
    assert reason_of(caught.value) is Reason.UNAUTHENTICATED
    async with served.channels(Identity.EXECUTOR) as channels:
        health = health_pb2_grpc.HealthStub(channels.to("agent"))
        async with open_stream(health.Watch(health_pb2.HealthCheckRequest())) as watch:
            assert (await anext(aiter(watch))).status == health_pb2.HealthCheckResponse.SERVING


async def test_a_unary_call_has_the_default_deadline_of_its_channel(served: Running) -> None:
    async with served.channels() as channels:
        await get_turn(channels, "any")
        await get_turn(channels, "any", timeout=5)
    default, given = served.seen.deadlines_s
    assert 25 < (default or 0) < 31
    assert 1 < (given or 0) < 6


async def test_a_call_that_its_client_gave_up_is_stopped(served: Running) -> None:
    async with served.channels() as channels:
        error = await failure(get_turn(channels, "slow", timeout=0.05))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert reason_of(error) is Reason.SERVICE_UNAVAILABLE
        await until(lambda: served.seen.ended == ["slow"])
    await until(lambda: served.counter.calls == [("GetTurn", "CANCELLED")])


async def test_a_stream_that_is_left_is_closed_on_the_server(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.channels() as channels:
        call = turns(channels).WatchTurn(turn_pb2.WatchTurnRequest(turn_id="endless"))
        async with open_stream(call) as stream:
            async for _ in stream:
                break
        await until(lambda: served.seen.ended == ["endless"])
        await until(lambda: served.counter.calls == [("WatchTurn", "CANCELLED")])
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@TRANSPORTS
async def test_a_stream_may_say_nothing_for_long(tmp_path: Path, transport: str) -> None:
    async with limited(tmp_path, transport, stalled_reader_s=0.05) as (_, sample, stub):
        request = turn_pb2.WatchTurnRequest(turn_id="slow")
        async with open_stream(stub.WatchTurn(request, metadata=TOKEN)) as watch:
            assert await anext(aiter(watch)) is not None
            await asyncio.sleep(0.1)
            sample.seen.release.set()
            assert [message.events[0].sequence async for message in watch] == [2, 3]


@TRANSPORTS
async def test_streams_end_and_no_more_begin_while_draining(tmp_path: Path, transport: str) -> None:
    async with limited(tmp_path, transport) as (pipeline, sample, stub):
        request = turn_pb2.WatchTurnRequest(turn_id="slow")
        async with open_stream(stub.WatchTurn(request, metadata=TOKEN)) as watch:
            messages = aiter(watch)
            await anext(messages)
            await sample.seen.started.wait()  # the first message is out, also for the server
            pipeline.end_streams()
            cut = await failure(anext(messages))
        late = await failure(anext(aiter(stub.WatchTurn(request, metadata=TOKEN))))
        await stub.GetTurn(turn_pb2.GetTurnRequest(), metadata=TOKEN)
    assert reason_of(cut) is reason_of(late) is Reason.DRAINING
    assert cut.code() is late.code() is grpc.StatusCode.UNAVAILABLE
    assert sample.seen.ended == ["slow"]


@TRANSPORTS
async def test_a_stream_whose_client_does_not_read_is_ended(tmp_path: Path, transport: str) -> None:
    async with limited(tmp_path, transport, stalled_reader_s=0.2) as (_, sample, stub):
        request = turn_pb2.WatchTurnRequest(turn_id="flood")
        async with open_stream(stub.WatchTurn(request, metadata=TOKEN)) as watch:
            await until(lambda: sample.seen.ended == ["flood"])
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in watch:
                    pass
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "stopped reading" in (caught.value.details() or "")


async def test_a_server_that_stops_ends_what_runs_and_takes_nothing_more(served: Running) -> None:
    async with served.channels() as channels:
        slow = asyncio.create_task(failure(get_turn(channels, "slow")))
        await served.seen.started.wait()
        await served.server.stop(0.05)
        cut = await slow
        late = await failure(get_turn(channels, "any", timeout=0.2))
    assert reason_of(cut) is reason_of(late) is Reason.SERVICE_UNAVAILABLE
    assert served.seen.ended == ["slow"]


@asynccontextmanager
async def limited(
    folder: Path, transport: str, **limits: Any
) -> AsyncGenerator[tuple[CallPipeline, Sample, turn_pb2_grpc.TurnServiceStub], None]:
    """Serves the sample with limits that a test can wait for, to a client that sets none."""
    sample = Sample()
    gate = Gate(Authenticator({Identity.GATEWAY: "secret"}), [sample.policy])
    pipeline = CallPipeline(gate, **limits)
    if transport == "in process":
        beside = InProcessServer()
        sample.register(cast("grpc.aio.Server", beside))
        beside.start(pipeline)
        channel = cast("grpc.aio.Channel", InProcessChannel(beside))
        yield pipeline, sample, turn_pb2_grpc.TurnServiceStub(channel)
        await beside.stop(0)
        return
    server = grpc.aio.server(interceptors=[pipeline])
    sample.register(server)
    server.add_insecure_port(f"unix:{folder}/limited.sock")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{folder}/limited.sock") as channel:
        yield pipeline, sample, turn_pb2_grpc.TurnServiceStub(channel)
    await server.stop(None)


async def requests(message: Any, count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield message
