"""Traces: one for each message, over all services that work on it, sent to a real OTLP receiver."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import Deployment, four_processes, one_process, running
from tests.e2e.model import TELL, ModelProcess, calls, model_process, rule, terminal_call
from tests.fakes.otlp import Received, Receiver, receiving
from tests.support.ports import free_port

SECRET = "sk-proj-4fTz9LqWmXv2Rb7NcYp1"
EXEC = "hermes.executor.v1.ExecService/AttachExec"
RULES = (
    rule("look", calls(terminal_call("echo here")), TELL),
    rule("fail", calls(terminal_call("exit 3")), TELL),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """A scripted model."""
    with model_process(tmp_path_factory.mktemp("model"), RULES) as process:
        yield process


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """Where the services of this module send their traces."""
    with receiving() as started:
        yield started


@pytest.fixture(scope="module")
def services(
    model: ModelProcess, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Four services that trace."""
    folder = tmp_path_factory.mktemp("traced")
    config = sandboxed(need_backend("bubblewrap", folder))
    settings = {
        "HERMES_TRACING_ENDPOINT": receiver.url,
        "HERMES_TRACING_HEADERS": f"x-receiver-key={SECRET}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    with running(four_processes(folder, model.url, config, **settings)) as started:
        yield started


def named(spans: Sequence[Received], name: str) -> list[Received]:
    return [each for each in spans if each.name == name]


def test_a_message_is_one_trace_over_all_services_that_work_on_it(
    services: Deployment, receiver: Receiver
) -> None:
    answer = services.client.ask("look around")
    received = receiver.wait_for(
        "hermes-gateway message", "hermes-agent invoke_agent hermes", f"hermes-executor {EXEC}"
    )
    (turn,) = [
        each
        for each in named(received, "invoke_agent hermes")
        if each.attributes["hermes.turn.id"] == answer["turn_id"]
    ]
    spans = [each for each in received if each.trace_id == turn.trace_id]
    by_id = {each.span.span_id: each for each in spans}

    def above(span: Received) -> list[str]:
        upwards: list[str] = []
        while span.parent:
            span = by_id[span.parent]
            upwards.append(f"{span.service} {span.name}")
        return upwards

    start = "hermes.agent.v1.TurnService/StartTurn"
    entrance = [f"hermes-agent {start}", f"hermes-gateway {start}"]
    assert above(turn) == [*entrance, "hermes-gateway message", "hermes-gateway receive"]
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["gen_ai.conversation.id"] == answer["session_id"]
    assert turn.attributes["hermes.turn.outcome"] == "completed"
    assert turn.attributes["gen_ai.usage.input_tokens"] == answer["usage"]["prompt_tokens"]
    first, second = named(spans, f"chat {turn.attributes['gen_ai.request.model']}")
    for chat in (first, second):
        assert above(chat)[0] == "hermes-agent invoke_agent hermes"
        assert chat.attributes["gen_ai.usage.output_tokens"] > 0
    assert second.attributes["gen_ai.response.time_to_first_chunk"] > 0
    (tool,) = named(spans, "execute_tool terminal")
    assert tool.attributes["gen_ai.tool.name"] == "terminal"
    begun = next(each for each in named(spans, EXEC) if each.service == "hermes-executor")
    working = ["hermes-agent execute_tool terminal", "hermes-agent invoke_agent hermes"]
    assert above(begun)[1:3] == working
    assert begun.attributes["rpc.system.name"] == "grpc"
    (started,) = [each for each in named(spans, start) if each.service == "hermes-agent"]
    assert started.attributes["rpc.response.status_code"] == "OK"
    # A client that has read how a command ended leaves the stream, before or after its status.
    assert begun.attributes["rpc.response.status_code"] in {"OK", "CANCELLED"}
    assert not any(each.failed for each in spans)


def test_a_call_that_fails_is_marked_and_says_nothing_of_what_was_said(
    services: Deployment, receiver: Receiver
) -> None:
    before = len(receiver.spans)
    services.client.ask(f"fail with {SECRET}")
    while not (tools := named(receiver.spans[before:], "execute_tool terminal")):
        time.sleep(0.05)
    assert tools[0].failed
    assert tools[0].attributes["error.type"] == "tool_error"
    said = "".join(str(each.span) for each in receiver.spans)
    assert "exit 3" not in said
    assert SECRET not in said
    assert all(each["x-receiver-key"] == SECRET for each in receiver.headers)


def test_the_admin_port_says_what_is_served(model: ModelProcess, tmp_path: Path) -> None:
    config = sandboxed(need_backend("bubblewrap", tmp_path))
    port = free_port()
    made = one_process(tmp_path, model.url, config, HERMES_ADMIN_PORT=str(port))
    with running(made), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        served = set(database.get_services())
        described = database.FindFileContainingSymbol("hermes.agent.v1.TurnService")
    assert {
        "hermes.agent.v1.TurnService",
        "hermes.executor.v1.ExecService",
        "hermes.gateway.v1.ConversationService",
        "hermes.scheduler.v1.JobService",
    } <= served
    (service,) = described.service
    assert "StartTurn" in {method.name for method in service.method}
