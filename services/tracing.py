"""Spans: what a piece of work consisted of and where its time went, across tasks and services.

A process that is told where traces go binds its tracer once, with `traced_by`, and its tasks have
it from there; in any other process all of this is one look at a context variable. Work that nobody
traces further up begins a trace at an entrance: a message, a run of a job, a turn taken up.
"""

from asyncio import CancelledError
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

import grpc
from msgspec import Struct

from services.calls import Metadata

TRACEPARENT = "traceparent"
"""W3C's name of the metadata that says which span a call belongs to."""
METHOD = "rpc.method"
STATUS = "rpc.response.status_code"
ERROR = "error.type"
CANCELLED = "hermes.cancelled"
"""Of what was stopped from outside, which is no failure."""

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

NONE: Attributes = MappingProxyType({})

_SYSTEM = {"rpc.system.name": "grpc"}
# What a caller does wrong is no error of whoever serves it.
_SERVERS_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)


class Kind(StrEnum):
    """Which end of a conversation a span is."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class Span(Protocol):
    """A piece of work while it goes on."""

    @property
    def traceparent(self) -> str:
        """Names it to other processes; empty where nothing is traced."""
        ...

    def set(self, attributes: Attributes) -> None:
        """Add what is known of it by now; strings lose their secrets."""
        ...

    def set_text(self, said: Callable[[], Attributes]) -> None:
        """Add what people or models have said, where that is wanted in traces."""
        ...

    def happened(self, name: str, attributes: Attributes = NONE) -> None:
        """Note what has just happened in it."""
        ...

    def failed(self, kind: str) -> None:
        """Say that it failed, and how in one word."""
        ...

    def end(self) -> None:
        """It is over."""
        ...


class Tracer(Protocol):
    """Where the spans of a process go."""

    def start(self, name: str, kind: Kind, parent: "Span | str", attributes: Attributes) -> Span:
        """Begin a span below another one, or below the one of this `traceparent`, if any."""
        ...


class _Nothing:
    """The span of what nobody traces."""

    traceparent = ""

    def set(self, attributes: Attributes) -> None:
        pass

    def set_text(self, said: Callable[[], Attributes]) -> None:
        pass

    def happened(self, name: str, attributes: Attributes = NONE) -> None:
        pass

    def failed(self, kind: str) -> None:
        pass

    def end(self) -> None:
        pass


NOTHING: Span = _Nothing()


class _Here(Struct, frozen=True):
    tracer: Tracer
    span: Span


_HERE: ContextVar[_Here | None] = ContextVar("trace", default=None)


@contextmanager
def traced_by(tracer: Tracer) -> Generator[None]:
    """Trace what is done inside, also by tasks begun there."""
    token = _HERE.set(_Here(tracer, NOTHING))
    try:
        yield
    finally:
        _HERE.reset(token)


def traceparent() -> str:
    """The name of the span that this is done in; empty where nothing is traced."""
    here = _HERE.get()
    return "" if here is None else here.span.traceparent


@contextmanager
def span(
    name: str,
    attributes: Attributes = NONE,
    *,
    kind: Kind = Kind.INTERNAL,
    parent: str = "",
    expected: tuple[type[Exception], ...] = (),
) -> Generator[Span]:
    """Trace what is done inside, below the span of `parent` or else below the one around it.

    What is raised through it makes it a failed one, where that is not `expected`; what is stopped
    from outside is a cancelled one.
    """
    here = _HERE.get()
    if here is None:
        yield NOTHING
        return
    started = here.tracer.start(name, kind, parent or here.span, attributes)
    token = _HERE.set(_Here(here.tracer, started))
    try:
        yield started
    except (CancelledError, GeneratorExit):
        started.set({CANCELLED: True})
        raise
    except BaseException as error:
        if not isinstance(error, expected):
            started.failed(type(error).__name__)
        raise
    finally:
        _HERE.reset(token)
        started.end()


@contextmanager
def serving(method: str, metadata: Metadata) -> Generator[Span]:
    """Trace a call that is served, where its caller does so; `end_served` says how it went."""
    came = _came_with(metadata) if _HERE.get() is not None else ""
    if not came:
        yield NOTHING
        return
    with span(method[1:], _of(method), kind=Kind.SERVER, parent=came) as served:
        yield served


def end_served(served: Span, status: str) -> None:
    """Say how a call that was served has ended."""
    served.set({STATUS: status})
    if status in _SERVERS_FAULTS:
        served.failed(status)


def calling(method: str) -> Span:
    """A call that is about to be made, to be ended with `end_call`; NOTHING outside of any work.

    Services look after each other all the time; only what belongs to some work is worth a trace.
    """
    here = _HERE.get()
    if here is None or here.span is NOTHING:
        return NOTHING
    return here.tracer.start(method[1:], Kind.CLIENT, here.span, _of(method))


def as_metadata(called: Span) -> Metadata:
    """What tells whoever serves a call to which span it belongs."""
    return ((TRACEPARENT, called.traceparent),) if called is not NOTHING else ()


def end_call(called: Span, code: grpc.StatusCode) -> None:
    """Say how a call that was made has ended."""
    called.set({STATUS: code.name})
    # What reads a stream to where it has all that it wants ends the call, and has not failed.
    if code not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        called.failed(code.name)
    called.end()


def _came_with(metadata: Metadata) -> str:
    for key, value in metadata:
        if key == TRACEPARENT and isinstance(value, str):
            return value
    return ""


def _of(method: str) -> Attributes:
    return {**_SYSTEM, METHOD: method[1:]}
