"""A turn that this process owns, as the loop reads it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from agent_service.records.calls import Decided, PendingCall, PendingScript
from agent_service.records.compression import NOTHING, Compression
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
"""After so many successive messages with the same failing call, the turn ends."""

_PURPOSES = frozenset({JOB, SUBAGENT, REVIEW})
"""Kinds of turns whose calls are counted separately."""


class LiveTurn(Struct):
    """The state of a turn; only a committed transition changes it."""

    request: TurnRequest
    platform: str
    lease: Lease
    """Fences every write of the turn."""
    max_tokens: int
    messages: list[bytes]
    """The encoded conversation as sent, the system prompt first."""
    message_count: int
    """Messages of the session, including those reserved for pending calls."""
    sequence: int
    steps: int
    started_at: datetime
    approval_timeout: timedelta
    session_usage: Usage
    """The session's usage without this turn."""
    model_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    pending: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall])
    """By call key, in the model's order."""
    script: PendingScript | None = None
    unread: bool = False
    """The files of its message are to be read before the message is stored."""
    results: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Results of the running batch by message sequence, until all are there."""
    result_chars: dict[int, int] = field(default_factory=dict[int, int])
    """Lengths of the turn's results, by message sequence."""
    decided: dict[str, Decided] = field(default_factory=dict[str, Decided])
    """Persons' decisions, by call key."""
    compression: Compression = NOTHING
    overlay: Overlay = NO_OVERLAY
    tokens_per_byte: float = 0.0
    """The ratio in the session's last request as the provider counted it; 0 if unknown."""
    compressed_in_vain: int = 0
    failures_in_row: int = 0
    """The number of latest successive messages in which a call failed in the same way."""
    revision: int = 0
    """The session's revision, which changes when messages are removed."""
    waits_for_person: bool = False
    has_reserved: bool = False
    """Whether budget is reserved for a model call whose usage is not stored yet."""
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """Cached values of the session that only its calls change."""
    notices: tuple[str, ...] = ()
    """Notices for the person, shown with the turn's first answer."""
    finished: TurnFinished | None = None

    @property
    def id(self) -> str:
        return self.request.turn_id

    @property
    def kind(self) -> str:
        return self.request.kind

    @property
    def profile(self) -> str:
        return self.request.profile

    @property
    def session_id(self) -> str:
        return self.request.session_id

    @property
    def options(self) -> TurnOptions:
        return self.request.options

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def route(self) -> str:
        """Return the route to that model; empty means the configured endpoint."""
        return "" if self.request.switched is None else self.request.switched.route

    @property
    def toolsets(self) -> frozenset[str]:
        """Return the toolsets that it may use; empty means all."""
        return frozenset(self.request.granted)

    @property
    def unattended(self) -> Unattended | None:
        """Return what happens to calls that need a decision; None if a person can be asked."""
        return self.options.unattended if self.kind in UNATTENDED_KINDS else None

    @property
    def calls_left(self) -> int:
        return max(0, self.options.max_model_calls - self.model_calls)

    @property
    def origin(self) -> Mapping[str, str]:
        return self.request.origin

    @property
    def epoch(self) -> int:
        """Return the number of the turn's owner, from 1."""
        return self.lease.epoch

    @property
    def purpose(self) -> Purpose:
        return Purpose(self.kind) if self.kind in _PURPOSES else Purpose.TURN

    @property
    def result_chars_sent(self) -> int:
        """Return the total length of the turn's results that are still sent."""
        left_out = max(self.compression.through, self.compression.pruned)
        return sum(chars for number, chars in self.result_chars.items() if number > left_out)

    @property
    def under_way(self) -> tuple[str, ...]:
        """Return keys of what may be running in its sandbox."""
        return (*self.pending, *(() if self.script is None else (self.script.call.key,)))

    @property
    def charged_session_id(self) -> str:
        """Return the session whose budgets apply; for a delegated turn, the delegating one."""
        return self.origin.get(PARENT_SESSION, self.session_id)

    @property
    def step(self) -> int:
        return self.model_calls + 1
