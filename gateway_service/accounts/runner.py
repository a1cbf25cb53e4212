"""Runs an account: claims it, listens to it, and meanwhile processes its inbox and outbox."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from gateway_service.accounts.menus import MenuKeeper
from gateway_service.errors import OutcomeUnknown, RateLimited, Unreachable
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox.worker import OutboxWorker
from gateway_service.platforms.base import NOTHING, Platform, Received
from gateway_service.platforms.rate_limits import Limiter
from gateway_service.storage import accounts, statuses
from gateway_service.storage.accounts import AccountLease
from gateway_service.storage.statuses import ConnectionStatus
from gateway_service.turns.inbox import Inbox
from gateway_service.turns.router import Router
from services.clock import Clock
from services.database import Database
from services.database.leases import Fenced, Lease, LeaseKeeper, LeaseTable, Owner
from services.database.queue import poll
from services.errors import DatabaseUnavailable, HermesError
from services.lifecycle import first_failure

LOOK_S = 1.0


class StatusReporter:
    """Stores the status of an account whenever it changes."""

    def __init__(
        self,
        account: AccountLease,
        status: Callable[[], ConnectionStatus],
        limiter: Limiter,
        clock: Clock,
    ) -> None:
        """`status` returns how the account is connected, without rate limits."""
        self._account, self._status = account, status
        self._limiter, self._clock = limiter, clock
        self._stored: ConnectionStatus | None = None

    async def run(self) -> None:
        await poll("the status of an account", self._look, retry_s=LOOK_S)

    async def _look(self) -> float:
        now, status = self._clock.now().replace(microsecond=0), self._status()
        if (penalty_s := self._limiter.penalty_s) > 0:
            status = replace(status, rate_limited_until=now + timedelta(seconds=round(penalty_s)))
        if status != self._stored:
            account_id = self._account.id
            await self._account.write(
                partial(statuses.report, account_id=account_id, status=status)
            )
            self._stored = status
        return LOOK_S


_log = logging.getLogger(__name__)

CLAIM_EVERY_S = 1.0
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
UNSTORED_WAIT_S = 2.0


class Work(Struct, frozen=True):
    """The workers of an account while this process holds it."""

    router: Router
    outbox: OutboxWorker
    limiter: Limiter
    menu: MenuKeeper | None = None


class Ownership(Struct, frozen=True):
    """The identity and leases with which this process holds accounts."""

    owner: Owner
    leases: LeaseTable
    keeper: LeaseKeeper


class Runner:
    """Claims an account of a platform whenever it is free, and runs it."""

    def __init__(
        self,
        health: "PlatformHealth",
        profile: str,
        inbox: Inbox,
        work_of: Callable[[AccountLease], Work],
        database: Database,
        ownership: Ownership,
    ) -> None:
        self.health = health
        self._platform = health.platform
        self._profile = profile
        self._inbox = inbox
        self._work_of = work_of
        self._database = database
        self._ownership = ownership
        self._clock = health.clock
        self._ending = asyncio.Event()
        self._draining = asyncio.Event()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Hold the account whenever it is free, until drained or cancelled."""
        try:
            await self._hold_again_and_again()
        finally:
            self._ended.set()

    async def drain(self) -> None:
        """Stop listening, finish the messages that are being sent, and release the account."""
        self._draining.set()
        self._ending.set()
        await self._ended.wait()

    async def _hold_again_and_again(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._draining.is_set():
            begun_at = self._clock.monotonic()
            try:
                await self._hold()
            except Exception as error:  # noqa: BLE001 - the account is tried again after any error
                name = self._platform.name
                expected = _expected(error, name)
                why = expected or repr(first_failure(error))
                _log.error("%s does not run: %s", name, why, exc_info=not expected)
                self.health.note_loss()
                await self._report_failure(why)
            if self._clock.monotonic() - begun_at > LONGEST_WAIT_S:
                wait_s = FIRST_WAIT_S
            await self._pause(wait_s)
            wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    async def _report_failure(self, why: str) -> None:
        failed = partial(
            statuses.report_failure,
            account_id=f"{self._platform.name}:{self._platform.account_id}",
            problem=why,
        )
        with suppress(DatabaseUnavailable):
            await self._database.write(failed)

    async def _hold(self) -> None:
        lease, since = await self._claim()
        if lease is None:
            return
        keeper, leases = self._ownership.keeper, self._ownership.leases
        account = AccountLease(
            self._platform.name,
            self._platform.account_id,
            self._profile,
            self._database,
            leases,
            lease,
        )
        keeper.hold(lease, since, self._ending.set)
        try:
            async with self._platform:
                await self._work(account)
        finally:
            keeper.drop(lease)
            with suppress(Fenced, DatabaseUnavailable):
                await self._database.write(lambda conn: leases.release(conn, lease))

    async def _claim(self) -> tuple[Lease | None, float]:
        """Wait until the account is free; None if this process drains first."""
        name = f"{self._platform.name}:{self._platform.account_id}"
        await self._database.write(lambda conn: accounts.add(conn, name))
        owner, leases = self._ownership.owner, self._ownership.leases
        while not self._draining.is_set():
            since = self._clock.monotonic()
            lease = await self._database.write(lambda conn: leases.claim(conn, name, owner))
            if lease is not None:
                if not self._draining.is_set():
                    self._ending.clear()
                self.health.start_listening()
                return lease, since
            self.health.stand_by()
            await self._pause(CLAIM_EVERY_S)
        return None, 0.0

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def _work(self, account: AccountLease) -> None:
        work = self._work_of(account)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen(account))
            routing = group.create_task(work.router.run())
            sending = group.create_task(work.outbox.run())
            reporter = StatusReporter(account, self.health.status, work.limiter, self._clock)
            beside = [group.create_task(reporter.run())]
            if work.menu is not None:
                beside.append(group.create_task(work.menu.run()))
            await self._ending.wait()
            if not self._draining.is_set():
                raise Fenced(f"the lease of {account.platform} was lost")
            listening.cancel()
            routing.cancel()
            for each in beside:
                each.cancel()
            await work.outbox.finish()
            sending.cancel()

    async def _listen(self, account: AccountLease) -> None:
        """Receive and store events, again and again."""
        cursor = await account.database.read(partial(accounts.read_cursor, account_id=account.id))
        sink, wait_s = AccountSink(account, self._inbox, self.health, cursor), FIRST_WAIT_S
        while True:
            sink.has_stored = False
            try:
                await self._platform.listen(sink)
            except DatabaseUnavailable as error:
                # The cursor stays, so the platform sends these events again.
                name = self._platform.name
                _log.error("events of %s cannot be stored yet: %s", name, error)
                await self._clock.sleep(UNSTORED_WAIT_S)
            except (Unreachable, OutcomeUnknown, RateLimited) as error:
                wait_s = FIRST_WAIT_S if sink.has_stored else wait_s
                self.health.note_failure(error)
                await self._clock.sleep(error.retry_after_s or wait_s)
                wait_s = min(LONGEST_WAIT_S / 4, wait_s * 2)


class AccountSink:
    """Stores what an account receives, as its owner."""

    def __init__(
        self, account: AccountLease, inbox: Inbox, health: "PlatformHealth", cursor: str
    ) -> None:
        self.cursor = cursor
        self.has_stored = False
        self._account, self._inbox, self._health = account, inbox, health

    async def store(self, received: Received = NOTHING) -> None:
        self._health.note_answer()
        cursor = received.cursor or self.cursor
        if not received.is_empty or cursor != self.cursor:
            await self._inbox.receive(self._account, received)
        self.cursor, self.has_stored = cursor, True


class PlatformHealth:
    """Tracks whether a platform is alive.

    A platform is unready if its account is or should be held here, and nothing came from it, not
    even a heartbeat, for longer than its traits allow. On a standby replica no platform is unready.
    """

    def __init__(
        self,
        platform: Platform,
        clock: Clock,
        metrics: GatewayMetrics,
        trouble: Callable[[], str] = str,
    ) -> None:
        """`trouble` returns why the platform cannot call the gateway; empty if it can."""
        self.platform = platform
        self._trouble = trouble
        self.clock = clock
        self._metrics = metrics
        self._silent_since: float | None = None
        self._is_answering = False
        self._connected_at: datetime | None = None
        self._problem = ""

    def start_listening(self) -> None:
        if self._silent_since is None:
            self._silent_since = self.clock.monotonic()
        # Computed on read, because nothing is updated while a platform hangs.
        connected = self._metrics.connected.labels(self.platform.name)
        connected.set_function(lambda: self._is_answering and not self.unready())

    def stand_by(self) -> None:
        self._silent_since, self._is_answering = None, False
        self._connected_at, self._problem = None, ""

    def status(self) -> ConnectionStatus:
        """Return how the account is connected."""
        if problem := self.unready() or self._trouble() or self._problem:
            return ConnectionStatus(problem=problem)
        return ConnectionStatus(self._connected_at)

    def note_answer(self) -> None:
        now = self.clock.now()
        if self._connected_at is None or self.unready():
            self._connected_at = now
        self._silent_since, self._is_answering = self.clock.monotonic(), True
        self._problem = ""
        self._metrics.last_receive.labels(self.platform.name).set(now.timestamp())

    def note_failure(self, error: HermesError) -> None:
        self._connected_at, self._problem = None, error.message
        _log.warning("%s cannot be heard: %s", self.platform.name, error)
        if complaint := self.unready():
            _log.error(complaint)

    def note_loss(self) -> None:
        self._is_answering = False
        self._connected_at = None

    def unready(self) -> str:
        """Return for how long the platform has not answered; empty if all is well."""
        now = self.clock.monotonic()
        silent_s = now - (now if self._silent_since is None else self._silent_since)
        if silent_s <= self.platform.traits.deaf_after_s:
            return ""
        return f"{self.platform.name} has not answered for {silent_s:.0f} s"


def _expected(error: BaseException, name: str) -> str | None:
    """Return the message of an expected error of a platform; None if it is a bug."""
    if isinstance(error, HermesError):
        return error.message
    if isinstance(error, ModuleNotFoundError):
        return f"it needs a package more: pip install 'hermes-services[{name}]'"
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        reasons = [_expected(each, name) for each in group.exceptions]
        known = [reason for reason in reasons if reason is not None]
        return "; ".join(known) if len(known) == len(reasons) else None
    return None
