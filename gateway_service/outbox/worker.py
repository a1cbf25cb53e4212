"""Sends messages from the outbox: in order, once, and within the platform's rate limits."""

import asyncio
import logging
from datetime import timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.trace import SpanKind
from sqlalchemy import Connection

from gateway_service.errors import (
    AccountRefused,
    ChatMoved,
    MessageGone,
    OutcomeUnknown,
    RateLimited,
    Refused,
    Unreachable,
)
from gateway_service.messages import Attachment, ChatMove, Content
from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.base import Destination, Platform
from gateway_service.platforms.rate_limits import Limiter
from gateway_service.storage import attachments as files
from gateway_service.storage import channels, notifications, outbox
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.attachments import FileKey
from gateway_service.storage.inbox import Account
from gateway_service.storage.outbox import Kind, Part, State
from services.clock import Clock
from services.database.queue import Lanes, poll
from services.database.retries import until_answered
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers, result_or_error
from services.telemetry.tracing import span

_log = logging.getLogger(__name__)

PLACEHOLDER = Content("…")
UNSHOWN = Content("This message could not be shown here. The log of Hermes has the details.")
ATTEMPTS = 3
"""Attempts to send what fails with an error that is not ours."""
SETTLED = (State.SENT, State.MARKED_DUPLICATE, State.ABANDONED)

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
ABANDON_AFTER = timedelta(hours=24)
POLL_S = 5.0
FINISH_S = 4.0
MOST_EDITS = 10
"""Attempts up to which a refused edit becomes a new message; after that the part is abandoned."""
FILES_AT_ONCE = 2


class Outcome(Struct, frozen=True):
    """The result of an attempt to send a part."""

    part: Part
    state: State
    wait_s: float = 0.0
    error: str = ""
    move: ChatMove | None = None


class OutboxWorker:
    """Sends an account's outbox: chats in parallel, the messages of each chat in order."""

    def __init__(
        self,
        account: AccountLease,
        platform: Platform,
        limiter: Limiter,
        clock: Clock,
        metrics: GatewayMetrics,
    ) -> None:
        self._account = account
        self._platform = platform
        self._limiter = limiter
        self._clock = clock
        self._metrics = metrics
        self._workers = Workers()
        self._hint = account.database.listen(OUTBOX)
        self._lanes = Lanes("outbox of", self._workers, self._hint)
        self._room_for_files = asyncio.Semaphore(FILES_AT_ONCE)
        self._in_doubt = True
        self._failed = set[str]()
        """Chats whose last message is in doubt; their lanes may stay busy a moment longer."""
        self._finishing = False

    async def run(self) -> None:
        self._metrics.initialize(self._account.platform, map(str.lower, SETTLED))
        async with self._workers:
            await poll("the outbox", self._look, self._hint)

    async def finish(self) -> None:
        """Finish the messages that are being sent, and begin no others."""
        self._finishing = True
        await self._workers.drain(FINISH_S)

    async def _look(self) -> float:
        """Serve the chats with due messages; return in how many seconds to look again."""
        if self._in_doubt:
            await self._take_over()
        account, now, wait_s = self._account, self._clock.now(), POLL_S
        chats = await account.database.read(
            lambda conn: outbox.waiting_chats(conn, account.platform, account.account_id)
        )
        for chat_id, due_at in chats.items():
            if chat_id in self._lanes.busy | self._failed or self._finishing:
                continue
            if due_at > now:
                wait_s = min(wait_s, (due_at - now).total_seconds())
            else:
                self._lanes.serve(chat_id, self._serve(chat_id))
        return wait_s

    async def _take_over(self) -> None:
        """Take over the messages that an earlier owner was sending; they are sent again."""
        account, now, failed = self._account, self._clock.now(), self._failed
        busy = tuple(self._lanes.busy - failed)
        safe_s = self._platform.traits.repeats_safely_s
        self._in_doubt, self._failed = False, set[str]()
        try:
            found = await account.write(
                lambda conn: outbox.take_over(
                    conn, account.platform, account.account_id, busy, now, safe_s
                )
            )
        except DatabaseUnavailable:
            self._in_doubt, self._failed = True, self._failed | failed
            raise
        if found:
            _log.warning(
                "%d messages may have been sent already; they are sent again and marked", found
            )

    async def _serve(self, chat_id: str) -> None:
        try:
            while not self._finishing:
                while (wait_s := self._limiter.wait_s(chat_id)) > 0:
                    await self._clock.sleep(wait_s)
                part = await self._begin(chat_id)
                if part is None:
                    break
                await self._settle(await self._attempt(part))
        except DatabaseUnavailable as error:
            _log.warning("the outbox of chat %s waits for the database: %s", chat_id, error)
            self._in_doubt = True
            self._failed.add(chat_id)

    async def _begin(self, chat_id: str) -> Part | None:
        account, now = self._account, self._clock.now()
        return await account.write(
            lambda conn: outbox.begin(conn, account.platform, account.account_id, chat_id, now)
        )

    async def _attempt(self, part: Part) -> Outcome:
        """Send a part, traced below the span that it belongs to."""
        about = {"messaging.system": self._account.platform, "hermes.delivery.id": part.delivery_id}
        with span("deliver", about, kind=SpanKind.CLIENT, parent=part.traceparent) as sending:
            outcome = await self._try(part)
            sending.set({"hermes.delivery.state": outcome.state.lower()})
            if outcome.error:
                sending.failed("not_sent")
            return outcome

    async def _try(self, part: Part) -> Outcome:
        self._limiter.take(part.address.chat_id)
        try:
            outcome = await result_or_error(self._send(part))
            return outcome if isinstance(outcome, Outcome) else await self._fail(part, outcome)
        except RateLimited as error:
            self._limiter.penalize(error.wait_s)
            self._metrics.rate_limited.labels(self._account.platform).inc(error.wait_s)
            return Outcome(part, State.PENDING, error.wait_s, error.message)
        except ChatMoved as error:
            move = ChatMove(part.address.chat_id, error.new_chat_id)
            return Outcome(part, State.PENDING, move=move)
        except (MessageGone, Refused) as error:
            if part.message_id is not None and part.attempts < MOST_EDITS:
                # The message is gone or closed to us, not the answer: it is sent as a new message.
                return Outcome(replace(part, kind=Kind.MESSAGE, message_id=None), State.PENDING)
            _log.error("%s was not delivered: %s", part.delivery_id, error)
            return Outcome(part, State.ABANDONED, error=error.message)
        except OutcomeUnknown as error:
            return self._postpone(self._doubt(part), error.message)
        except (Unreachable, AccountRefused) as error:
            return self._postpone(part, error.message)

    def _doubt(self, part: Part) -> Part:
        """Return a part that may exist, marked if sending it again could show it twice."""
        is_new = part.kind is Kind.MESSAGE and part.message_id is None
        age_s = (self._clock.now() - part.due_since).total_seconds()
        repeats = is_new and age_s >= self._platform.traits.repeats_safely_s
        return replace(part, uncertain=part.uncertain or repeats)

    async def _fail(self, part: Part, error: Exception) -> Outcome:
        """Retry after an unexpected error; finally send a note instead, so the chat continues."""
        _log.error("%s was not delivered", part.delivery_id, exc_info=error)
        if part.attempts + 1 < ATTEMPTS:
            return self._postpone(self._doubt(part), repr(error))
        plain = replace(part, kind=Kind.MESSAGE, content=UNSHOWN, version=0, uncertain=False)
        await result_or_error(self._send(plain))  # if that fails too, the log has to do
        return Outcome(part, State.ABANDONED, error=repr(error))

    async def _send(self, part: Part) -> Outcome:
        address, can_edit = part.address, self._platform.traits.can_edit
        to = Destination(address.chat_id, address.thread_id)
        if part.message_id is not None:
            if can_edit:
                await self._platform.edit(to, part.message_id, part.shown)
        elif part.comes_empty and can_edit:
            message_id = await self._platform.send(to, PLACEHOLDER, part.key)
            part = replace(part, message_id=message_id)
            if part.version or part.uncertain:
                return Outcome(part, State.PENDING)
        else:
            part = replace(part, message_id=await self._create(to, part))
        return Outcome(part, State.MARKED_DUPLICATE if part.uncertain else State.SENT)

    async def _create(self, to: Destination, part: Part) -> str:
        shown = part.shown
        if not shown.attachments:
            return await self._platform.send(to, shown, part.key)
        async with self._room_for_files:
            file, *album = [await self._load(part, each) for each in shown.attachments]
            loaded = replace(shown, attachment=file, album=tuple(album))
            return await self._platform.send(to, loaded, part.key)

    async def _load(self, part: Part, file: Attachment) -> Attachment:
        key = FileKey(part.delivery_id, part.address.profile, file.sha256)
        try:
            data = await self._account.database.read(partial(files.read_data, key=key))
        except DatabaseUnavailable as error:
            # Nothing was sent, so the outcome is known.
            raise Unreachable(f"{file.name} cannot be read: {error.message}") from error
        if data is None:
            raise Refused(f"{file.name} cannot be sent: there is no such file")
        return replace(file, data=data)

    def _postpone(self, part: Part, error: str) -> Outcome:
        if self._clock.now() - part.due_since > ABANDON_AFTER:
            _log.error("%s was given up after a day: %s", part.delivery_id, error)
            return Outcome(part, State.ABANDONED, error=error)
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(part.attempts, 10))
        return Outcome(part, State.PENDING, wait_s, error)

    async def _settle(self, outcome: Outcome) -> None:
        """Store the outcome, retrying without limit: only this process knows it."""
        now, part = self._clock.now(), outcome.part
        due_at = now + timedelta(seconds=outcome.wait_s)
        is_placeholder = part.kind is Kind.ANSWER and not part.version

        def write(conn: Connection) -> None:
            settled = (conn, part, outcome.state, now)
            outbox.settle(*settled, next_attempt_at=due_at, error=outcome.error)
            if outcome.move is not None:
                address = part.address
                owner = Account(address.profile, address.platform, address.account_id)
                channels.follow(conn, owner, outcome.move)
            if outcome.state is State.ABANDONED and not is_placeholder:
                outbox.add(conn, notifications.failure_notice(part, outcome.error), now)
            if part.content.attachment is not None and outcome.state is not State.PENDING:
                files.drop_sent(conn, part.delivery_id)

        await until_answered(self._clock, part.delivery_id, partial(self._account.write, write))
        if outcome.state is not State.PENDING and not is_placeholder:
            name = outcome.state.value.lower()
            self._metrics.deliveries.labels(self._account.platform, name).inc()
