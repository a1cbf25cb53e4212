"""A receiver of traces: OpenTelemetry's own service, which keeps what it is sent."""

import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from msgspec import Struct
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2


class Received(Struct, frozen=True):
    """A span that has come, and the process that it is from."""

    service: str
    span: trace_pb2.Span

    @property
    def name(self) -> str:
        """What it is of."""
        return self.span.name

    @property
    def trace_id(self) -> str:
        """The trace that it is part of."""
        return self.span.trace_id.hex()

    @property
    def parent(self) -> bytes:
        """The span that it is below; empty is none."""
        return self.span.parent_span_id

    @property
    def failed(self) -> bool:
        """Whether it is marked as failed."""
        return self.span.status.code == trace_pb2.Status.STATUS_CODE_ERROR

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What is said of it."""
        return {each.key: _value(each.value) for each in self.span.attributes}


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps spans."""

    url = ""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.headers: list[Mapping[str, str | bytes]] = []
        self._more = threading.Condition()

    def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Takes spans."""
        with self._more:
            self.headers.append(dict(context.invocation_metadata()))
            for group in request.resource_spans:
                about = {each.key: each.value.string_value for each in group.resource.attributes}
                self.spans += [
                    Received(about["service.name"], span)
                    for scope in group.scope_spans
                    for span in scope.spans
                ]
            self._more.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, *names: str, timeout_s: float = 30.0) -> Sequence[Received]:
        """All spans, once there is one of each of these services and names."""
        with self._more:
            came = self._more.wait_for(lambda: self._came.issuperset(names), timeout_s)
            assert came, f"{names} did not all come, but {sorted(self._came)}"
            return list(self.spans)

    def wait_for_several(
        self, name: str, count: int, timeout_s: float = 30.0
    ) -> Sequence[Received]:
        """All spans, once so many have come of a name."""
        with self._more:
            came = self._more.wait_for(lambda: self._count(name) >= count, timeout_s)
            assert came, f"of {count} spans {name} only {self._count(name)} came"
            return list(self.spans)

    def _count(self, name: str) -> int:
        return sum(each.name == name for each in self.spans)

    @property
    def _came(self) -> set[str]:
        return {f"{each.service} {each.name}" for each in self.spans}


@contextmanager
def receiving() -> Generator[Receiver]:
    """A receiver on a free port, until the end."""
    receiver, server = Receiver(), grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    receiver.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None)


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(each) for each in found.values] if kind == "array_value" else found
