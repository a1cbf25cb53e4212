"""Routes each event: a command, a button, the answer to a question, or a new turn of the agent."""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import Connection

from gateway_service.chats.access import Access
from gateway_service.chats.resets import RESUME, Resets, note_message
from gateway_service.commands.base import Answer, Chat, CommandContext, denied, may_use
from gateway_service.commands.registry import AsTurn, dispatch, parse
from gateway_service.errors import PlatformError
from gateway_service.messages import (
    QUEUE,
    ButtonPress,
    MessageEvent,
    Reaction,
    TurnRequest,
    turn_command,
)
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox.worker import PLACEHOLDER
from gateway_service.platforms.base import Platform
from gateway_service.storage import channels, chats, inbox, outbox
from gateway_service.storage.accounts import INBOX, OUTBOX, AccountLease
from gateway_service.storage.inbox import Waiting
from gateway_service.storage.outbox import Delivery, Kind
from gateway_service.turns.admission import Admission, find_new_version
from gateway_service.turns.enrichment import Enrichment
from gateway_service.turns.presenter import TurnPresenter
from gateway_service.turns.prompt_replies import PromptReplies
from services.clock import Clock
from services.database.queue import RETRY_S, Lanes, poll
from services.errors import HermesError, StaleEpoch, Unavailable
from services.ids import new_id, new_session_id
from services.lifecycle import Workers, result_or_error

_log = logging.getLogger(__name__)

POLL_S = 5.0
UNREADABLE = "I can read text, pictures, sound and documents, but not this."
ATTEMPTS = 3
MISTAKE = (
    "Something went wrong in Hermes, so this message was not processed. The log has the details."
)


class Router:
    """Processes an account's inbox: chats in parallel, the events of each chat in order."""

    def __init__(
        self,
        account: AccountLease,
        platform: Platform,
        access: Access,
        presenter: TurnPresenter,
        turns: Enrichment,
        context: CommandContext,
        metrics: GatewayMetrics,
    ) -> None:
        self._account, self._platform = account, platform
        self._admission = Admission(account, access, context.clock)
        self._presenter = presenter
        self._turns, self._context, self._metrics = turns, context, metrics
        policy = context.config.session_reset.policy_for(account.platform, context.config.zone)
        self._resets = Resets(account, context.agent, policy, context.clock, context.hooks)
        self._workers = Workers()
        self._hint = account.database.listen(INBOX)
        self._lanes = Lanes("inbox of", self._workers, self._hint)
        self._has_resumed = False

    async def run(self) -> None:
        """Resume open turns, then process new events, until cancelled."""
        async with self._workers:
            self._workers.start("resets", self._resets.run())
            await poll("the inbox", self._look, self._hint)

    async def _resume(self) -> None:
        account, open_turns = self._account, defaultdict[str, list[TurnRequest]](list)
        found = await account.database.read(
            lambda conn: inbox.accepted(conn, account.platform, account.account_id)
        )
        for key, turn in found:
            open_turns[key].append(turn)
        for key, turns in open_turns.items():
            self._lanes.serve(key, self._serve(key, turns))
        self._has_resumed = True

    async def _look(self) -> float:
        """Serve the chats with new events; return in how many seconds to look again."""
        if not self._has_resumed:
            await self._resume()
        account = self._account
        lanes = await account.database.read(
            lambda conn: inbox.lanes(conn, account.platform, account.account_id)
        )
        for key in lanes:
            if key not in self._lanes.busy:
                self._lanes.serve(key, self._serve(key, ()))
        return POLL_S

    async def _serve(self, key: str, turns: Sequence[TurnRequest]) -> None:
        """Begin a chat's open turns, then process its events in order."""
        try:
            for turn in turns:
                await self._begin(turn)
            while (found := await self._admission.next(key)) is not None:
                waiting, access = found
                handle = partial(self._handle, key, waiting, access)
                if why := await attempt(self._context.clock, f"an event of {key}", handle):
                    await self._settle(key, waiting, why)
        except HermesError as error:
            _log.warning("the inbox of %s waits: %s", key, error)
            await self._context.clock.sleep(RETRY_S)
        except Exception:
            # The event cannot be read, perhaps as a newer replica has stored it.
            await self._context.clock.sleep(RETRY_S)
            raise

    async def _handle(self, key: str, waiting: Waiting, access: Access) -> None:
        event = waiting.event
        if not access.allows(event.source):
            await self._admission.turn_away(waiting)
            return
        most = self._platform.traits.buttons
        replies = PromptReplies(self._account, access, self._context, most)
        match event:
            case ButtonPress():
                await self._press(waiting, event, replies)
            case Reaction():
                await self._settle(key, waiting, await replies.react(event))
            case MessageEvent(edits=""):
                await self._handle_message(key, waiting, event, replies)
            case MessageEvent():
                version = await find_new_version(self._account, key, waiting.sequence, event)
                if version is None:
                    await self._close(waiting)
                else:
                    await self._handle_message(key, waiting, version, replies)

    async def _handle_message(
        self, key: str, waiting: Waiting, event: MessageEvent, replies: PromptReplies
    ) -> None:
        access = replies.access
        if (command := parse(event.text)) is not None:
            await self._run_command(key, waiting, event, access, *command)
        elif (why_not := await replies.take(key, event)) is not None:
            await self._settle(key, waiting, why_not)
        elif event.text.strip() or event.quotes or event.files:
            await self._begin(await self._accept(key, waiting, event, access))
        else:
            await self._reply(key, waiting, Answer(UNREADABLE))

    async def _settle(self, key: str, waiting: Waiting, why_not: str) -> None:
        """Close an event that has no turn, and say what went wrong, if anything."""
        if why_not and not isinstance(waiting.event, ButtonPress):
            await self._reply(key, waiting, Answer(why_not))
        else:
            await self._close(waiting)

    async def _close(self, waiting: Waiting) -> None:
        now = self._context.clock.now()
        await self._account.write(lambda conn: inbox.close_event(conn, waiting, now))

    async def _accept(
        self, key: str, waiting: Waiting, event: MessageEvent, access: Access, skill: str = ""
    ) -> TurnRequest:
        """Store a message's turn, and a placeholder in the chat for the answer."""
        command, _ = turn_command(event.text) or (QUEUE, "")
        if command == QUEUE:  # commands about the last turn, such as /retry, stay in its session
            await self._resets.end_if_due(key)
        account, now = self._account, self._context.clock.now()
        profile, busy = account.profile, self._context.config.busy
        turn_id, fresh_id = new_id("trn"), new_session_id(now.astimezone())

        def write(conn: Connection) -> TurnRequest:
            session_id = chats.session_of(conn, profile, key)
            if session_id is None:
                session_id = fresh_id
                chats.put(conn, profile, key, session_id, now)
            source = self._context.directory.direct(conn, profile, event.source)
            turn = TurnRequest(
                *(turn_id, profile, session_id, source, event.text),
                quotes=event.quotes,
                files=event.files,
                skill=skill,
                busy_mode=chats.busy_mode(conn, profile, key) or busy.mode_for(account.platform),
                denied=denied(self._context.commands, access, source),
                traceparent=event.traceparent,
            )
            inbox.accept(conn, waiting, turn, now)
            channels.see(conn, profile, source, now)
            address = account.address(source)
            chat = Chat(profile, session_id, source, waiting.event.event_id, access)
            can_resume = partial(may_use, self._context.commands, chat, RESUME)
            note_message(conn, key, turn, address, now, can_resume=can_resume)
            if self._platform.traits.can_edit:
                placeholder = Delivery(
                    turn_id, address, [PLACEHOLDER], Kind.ANSWER, traceparent=turn.traceparent
                )
                outbox.add(conn, placeholder, now)
            return turn

        turn = await account.write(write, notify=OUTBOX)
        if turn.session_id == fresh_id:
            self._context.hooks.notify_chat("session:start", turn.source, fresh_id, session_key=key)
        lag_s = (now - waiting.received_at).total_seconds()
        self._metrics.inbox_lag.labels(account.platform).observe(lag_s)
        return turn

    async def _begin(self, turn: TurnRequest) -> None:
        """Start a turn, and follow it in a worker of its own while the chat goes on."""
        remark = ""

        async def start() -> None:
            nonlocal remark
            remark = await self._turns.start(turn)

        refusal = await attempt(self._context.clock, f"turn {turn.turn_id}", start)
        self._workers.start(f"turn {turn.turn_id}", self._answer(turn, refusal, remark))

    async def _answer(self, turn: TurnRequest, refusal: str, remark: str) -> None:
        """Show a turn to its end; if that fails for good, close it with a word."""
        answer = partial(self._presenter.answer, turn, refusal, remark)
        if why := await attempt(self._context.clock, f"the answer of {turn.turn_id}", answer):
            await self._presenter.answer(turn, why)

    async def _run_command(
        self,
        key: str,
        waiting: Waiting,
        event: MessageEvent,
        access: Access,
        name: str,
        arguments: str,
    ) -> None:
        profile = self._account.profile
        session_id = await self._account.database.read(
            lambda conn: chats.session_of(conn, profile, key)
        )
        # A chat without a session has no busy session: any new id serves.
        session_id = session_id or new_session_id(self._context.clock.now().astimezone())
        event_id = f"{event.source.platform}:{event.event_id}"
        chat = Chat(profile, session_id, event.source, event_id, access, key)
        outcome = await dispatch(self._context, chat, name, arguments)
        if isinstance(outcome, AsTurn):
            await self._begin(await self._accept(key, waiting, event, access, outcome.skill))
        else:
            await self._reply(key, waiting, outcome)

    async def _reply(self, key: str, waiting: Waiting, answer: Answer) -> None:
        account, now, event = self._account, self._context.clock.now(), waiting.event
        address = account.address(event.source)
        reply = Delivery(
            f"{account.platform}:{event.event_id}",
            address,
            [self._presenter.content(answer.text)],
            traceparent=event.traceparent if isinstance(event, MessageEvent) else "",
        )

        def write(conn: Connection) -> None:
            if answer.session_id:
                chats.put(conn, account.profile, key, answer.session_id, now)
            outbox.add(conn, reply, now)
            channels.see(conn, account.profile, event.source, now)
            inbox.close_event(conn, waiting, now)

        await account.write(write, notify=OUTBOX)

    async def _press(self, waiting: Waiting, press: ButtonPress, replies: PromptReplies) -> None:
        """Pass on the press of a button; the question changes once the turn has the answer."""
        outcome = await replies.press(press)
        await self._close(waiting)
        with suppress(PlatformError):
            await self._platform.acknowledge(press, outcome)


async def attempt(clock: Clock, what: str, work: Callable[[], Awaitable[object]]) -> str:
    """Do work; return why it failed, as a person is told.

    A refusal is final; an error that is not ours has three attempts. Unavailable and StaleEpoch
    are raised: the work can be done later, or by another replica.
    """
    for number in range(1, ATTEMPTS + 1):
        try:
            error = await result_or_error(work())
        except (Unavailable, StaleEpoch):
            raise
        except HermesError as refusal:
            _log.warning("%s failed: %s", what, refusal)
            return refusal.message
        if not isinstance(error, Exception):
            return ""
        _log.error("%s failed (%d of %d)", what, number, ATTEMPTS, exc_info=error)
        if number < ATTEMPTS:
            await clock.sleep(RETRY_S)
    return MISTAKE
