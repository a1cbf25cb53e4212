"""One item from its claim to its record.

The ids of its turns follow from its own id, so a scheduler that takes over an item finds the turns
that the one before it has started, and the record is fenced by the item's lease.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from math import isnan
from typing import TypeVar

from msgspec import Struct

from scheduler_service.batch_records import ItemClaim, ItemResult, ItemState
from scheduler_service.clients.batches import BatchAgent, TurnReport
from scheduler_service.errors import CallRefused
from scheduler_service.runs.metrics import BatchMetrics
from scheduler_service.storage import batch_claims, batches
from scheduler_service.storage.batches import CHANNEL
from services.clock import Clock
from services.database import Database
from services.database.leases import Fenced, LeaseTable
from services.database.retries import until_answered
from services.errors import Reason
from services.telemetry.tracing import span

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

FIRST_WAIT_S, LONGEST_WAIT_S = 30.0, 900.0
"""How long a batch waits for the model's provider, twice as long each time in a row."""
_LEAST_ASKED_S, _MOST_ASKED_S = 1.0, 86_400.0
"""The bounds of what a provider may ask for instead."""
_MAX_ATTEMPTS = 5
"""Attempts at an item while the model does not answer; a rate limit has none."""
_MAX_ANSWER_CHARS = 256 * 1024
_SHOWN_CHARS = 4000

_BUSY = frozenset({Reason.MODEL_RATE_LIMITED, Reason.MODEL_UNAVAILABLE})
"""The provider may answer later."""
_FOR_ALL = frozenset(
    {Reason.MODEL_AUTH, Reason.MODEL_BILLING, Reason.MODEL_NOT_CONFIGURED, Reason.PERMISSION_DENIED}
)
"""Every item would fail for these."""
_STATES = {"completed": ItemState.COMPLETED, "limit_reached": ItemState.LIMIT_REACHED}


class ItemRunner(Struct, frozen=True):
    """Works on items."""

    database: Database
    agent: BatchAgent
    leases: LeaseTable
    clock: Clock
    metrics: BatchMetrics
    first_wait_s: float = FIRST_WAIT_S

    async def run(self, claim: ItemClaim) -> None:
        """Work on an item to its record; raises Fenced if another scheduler has taken it over."""
        with span("batch item", {"hermes.turn.id": claim.turn_id}, expected=(Fenced,)):
            await self._run(claim)

    async def _run(self, claim: ItemClaim) -> None:
        report = await self._turn(claim, self.agent.ask)
        is_again = report.reason in _BUSY and (
            report.reason is Reason.MODEL_RATE_LIMITED or claim.attempt < _MAX_ATTEMPTS
        )
        checked = None
        if claim.prompt.check.strip() and report.outcome in _STATES:
            checked = await self._turn(claim, self.agent.check)
        await self._release(claim)
        if is_again or report.reason in _FOR_ALL:
            await self._leave(claim, report)
            return
        state = _STATES.get(report.outcome, ItemState.FAILED)
        record = partial(
            batch_claims.record,
            leases=self.leases,
            claim=claim,
            state=state,
            result=result_of(report, checked),
            now=self.clock.now(),
        )
        await self._call(claim, partial(self.database.write, record))
        self.metrics.count(state)

    async def _turn(
        self, claim: ItemClaim, run: Callable[[ItemClaim], Awaitable[TurnReport]]
    ) -> TurnReport:
        try:
            return await self._call(claim, partial(run, claim))
        except CallRefused as refusal:
            return TurnReport("failed", error=refusal.message, reason=refusal.reason)

    async def _release(self, claim: ItemClaim) -> None:
        try:
            await self._call(claim, partial(self.agent.release, claim))
        except CallRefused as refusal:
            _log.warning("the sandbox of %s stays: %s", claim.turn_id, refusal)

    async def _leave(self, claim: ItemClaim, report: TurnReport) -> None:
        """Leave an item to a later attempt, and let its batch wait or stop."""
        batch_id, reason = claim.batch.id, report.error
        if report.reason in _FOR_ALL:
            change = partial(batches.stop, batch_id=batch_id, reason=reason)
        else:
            wait_s = await self._wait_s(claim, report)
            until = self.clock.now() + timedelta(seconds=wait_s)
            change = partial(batch_claims.wait, batch_id=batch_id, until=until, reason=reason)
        # First the batch, so that the item is not taken up at once.
        await self._call(claim, partial(self.database.write, change))
        again = partial(batch_claims.retry, leases=self.leases, claim=claim, spent=report.usage)
        await self._call(claim, partial(self.database.write, again, notify=CHANNEL))
        _log.info("item %s is tried again later: %s", claim.turn_id, reason)

    async def _wait_s(self, claim: ItemClaim, report: TurnReport) -> float:
        if report.retry_after_s is not None:
            return min(max(report.retry_after_s, _LEAST_ASKED_S), _MOST_ASKED_S)
        waits = partial(batch_claims.waits, batch_id=claim.batch.id)
        count = await self._call(claim, partial(self.database.read, waits))
        return min(LONGEST_WAIT_S, self.first_wait_s * 2 ** min(count, 10))

    async def _call(self, claim: ItemClaim, call: Callable[[], Awaitable[_T]]) -> _T:
        return await until_answered(self.clock, f"item {claim.lease.id}", call)


def result_of(report: TurnReport, checked: TurnReport | None) -> ItemResult:
    """Return what is recorded of an item's turn and its check."""
    finish_reason = report.outcome
    if report.outcome == "failed" and report.reason is not None:
        finish_reason = report.reason.name.lower()
    score, printed = None, ""
    if checked is not None:
        score, printed = _score(checked)
    return ItemResult(
        answer=_storable(report.answer, _MAX_ANSWER_CHARS),
        error=_storable(report.error, _SHOWN_CHARS),
        finish_reason=finish_reason,
        score=score,
        check_output=_storable(printed[-_SHOWN_CHARS:], _SHOWN_CHARS),
        usage=report.usage,
        tools=report.tools,
        model=report.model,
    )


def _score(checked: TurnReport) -> tuple[float | None, str]:
    """Return the score of a check, None if it was not run, and what it has printed."""
    if checked.exit_code is None:
        return None, checked.error
    if checked.exit_code != 0:
        return 0.0, checked.error
    last = checked.answer.rstrip().rpartition("\n")[2]
    try:
        score = float(last)
    except ValueError:
        return 1.0, checked.answer
    if isnan(score):  # such as the part that passes of no tests
        return 0.0, checked.answer
    return (score if 0 <= score <= 1 else 1.0), checked.answer


def _storable(text: str, most: int) -> str:
    """Remove NUL, which PostgreSQL cannot store, and cut the text."""
    return text.replace("\0", "\ufffd")[:most]
