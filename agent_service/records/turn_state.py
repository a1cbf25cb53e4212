"""A turn that this process owns, as the loop reads it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from agent_service.records.calls import Decided, PendingCall, PendingScript
from agent_service.records.compaction import NOTHING, Compaction
from agent_service.records.events import TurnFinished
from agent_service.records.model import Purpose
from agent_service.records.overlays import NOTHING as NO_OVERLAY
from agent_service.records.overlays import Overlay
from agent_service.records.requests import (
    JOB,
    PARENT_SESSION,
    REVIEW,
    SUBAGENT,
    UNATTENDED_KINDS,
    TurnOptions,
    TurnRequest,
    Unattended,
)
from agent_service.records.usage import Usage
from services.database.leases import Lease

STOP_AT = 5
"""So many messages in a row with a call that fails as before end the turn."""


_PURPOSES = frozenset({JOB, SUBAGENT, REVIEW})
"""Kinds of turns whose calls are counted apart from answers to somebody."""


class LiveTurn(Struct):
    """The state of a turn; only a committed transition changes it."""

    request: TurnRequest
    platform: str
    """Of its session."""
    lease: Lease
    """What every write of the turn is fenced by."""
    max_tokens: int
    """Of one answer."""
    messages: list[bytes]
    """The conversation, each message encoded as it is sent, the system prompt first."""
    message_count: int
    """Messages of the session, those reserved for pending calls included."""
    sequence: int
    """Of the last durable event."""
    steps: int
    """Steps so far, of models and tools."""
    started_at: datetime
    approval_timeout: timedelta
    session_usage: Usage
    """What its session has used without it."""
    model_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    pending: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall])
    """By call key, in the model's order."""
    script: PendingScript | None = None
    """What has to run before the model is asked."""
    results: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Results of the running batch by message sequence, until all are there."""
    result_chars: dict[int, int] = field(default_factory=dict[int, int])
    """How long the turn's results are, by message sequence."""
    decided: dict[str, Decided] = field(default_factory=dict[str, Decided])
    """What persons have decided, by call key."""
    compaction: Compaction = NOTHING
    """How the session's messages are sent."""
    overlay: Overlay = NO_OVERLAY
    """What is sent beside them."""
    tokens_per_byte: float = 0.0
    """Of its session's last request, as its provider has counted; 0 is not known."""
    compressed_in_vain: int = 0
    failures_in_row: int = 0
    """In how many messages in a row, up to the last one, a call has failed in the same way."""
    revision: int = 0
    """Of the session: another one when messages were taken out."""
    waits_for_person: bool = False
    has_reserved: bool = False
    """Something is reserved of its budgets, until what its model call took is stored."""
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values of the session that its calls alone change, as far as one has looked."""
    notices: tuple[str, ...] = ()
    """What a person is to hear with the turn's first answer."""
    finished: TurnFinished | None = None

    @property
    def id(self) -> str:
        """The turn's id."""
        return self.request.turn_id

    @property
    def kind(self) -> str:
        """What the turn is for."""
        return self.request.kind

    @property
    def profile(self) -> str:
        """The profile that it runs in."""
        return self.request.profile

    @property
    def session_id(self) -> str:
        """The session that it belongs to."""
        return self.request.session_id

    @property
    def options(self) -> TurnOptions:
        """How it works."""
        return self.request.options

    @property
    def model(self) -> str:
        """The model that answers now."""
        switched = self.request.switched
        return self.options.model if switched is None else switched.model

    @property
    def route(self) -> str:
        """The route to that model; empty means the configured endpoint."""
        return "" if self.request.switched is None else self.request.switched.route

    @property
    def toolsets(self) -> frozenset[str]:
        """The toolsets that it may use; empty means all."""
        return frozenset(self.request.granted)

    @property
    def unattended(self) -> Unattended | None:
        """What becomes of calls that need a decision; None where a person can be asked."""
        return self.options.unattended if self.kind in UNATTENDED_KINDS else None

    @property
    def calls_left(self) -> int:
        """How many more model calls it may make."""
        return max(0, self.options.max_model_calls - self.model_calls)

    @property
    def origin(self) -> Mapping[str, str]:
        """Platform, chat, thread and user that its message came from."""
        return self.request.origin

    @property
    def epoch(self) -> int:
        """Counts the owners of the turn, from 1."""
        return self.lease.epoch

    @property
    def purpose(self) -> Purpose:
        """What its model is asked for."""
        return Purpose(self.kind) if self.kind in _PURPOSES else Purpose.TURN

    @property
    def result_chars_sent(self) -> int:
        """How long those of the turn's results are together that are still sent."""
        left_out = max(self.compaction.through, self.compaction.pruned)
        return sum(chars for number, chars in self.result_chars.items() if number > left_out)

    @property
    def under_way(self) -> tuple[str, ...]:
        """Keys of what may be running in its sandbox."""
        return (*self.pending, *(() if self.script is None else (self.script.call.key,)))

    @property
    def charged_session_id(self) -> str:
        """The session whose budgets it is held to: where it was handed over, that of who did so."""
        return self.origin.get(PARENT_SESSION, self.session_id)

    @property
    def step(self) -> int:
        """Number of the running or next model call, from 1."""
        return self.model_calls + 1
