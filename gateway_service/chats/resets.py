"""Ends the sessions of chats according to the reset policy.

Sessions are checked every few seconds, and each chat before its next message. A chat moves to its
new session in one transaction, fenced by the account's lease, and only if it was not used since.
After that the agent is asked to review the old session.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection

from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient
from gateway_service.config import Mode, ResetPolicy
from gateway_service.errors import AgentRefused
from gateway_service.messages import Address, Content, Source, TurnRequest
from gateway_service.storage import chats, outbox
from gateway_service.storage.accounts import AccountLease
from gateway_service.storage.chats import Due, Reset
from gateway_service.storage.outbox import Delivery
from services.clock import Clock
from services.database.leases import Fenced
from services.database.queue import poll
from services.errors import HermesError, Unavailable
from services.ids import new_session_id

LOOK_S = 10.0
RESUME = "resume"
"""The command that returns to an earlier session."""

_log = logging.getLogger(__name__)
_WHY = {Mode.IDLE: "after a pause", Mode.DAILY: "for a new day"}


class Resets(Struct, frozen=True):
    """Ends the sessions of one account's chats."""

    _account: AccountLease
    _agent: AgentClient
    _policy: ResetPolicy
    _clock: Clock
    _hooks: Hooks

    async def run(self) -> None:
        await poll("the end of sessions", self.look, retry_s=LOOK_S)

    async def look(self) -> float:
        """End the sessions that are due, request reviews, and return when to look again."""
        account = self._account
        profile, platform = account.profile, account.platform
        if (cutoff := self._policy.cutoff(self._clock.now())) is not None:
            for found in await account.database.read(
                lambda conn: chats.list_due(conn, profile, platform, cutoff)
            ):
                await self._try_to_end(found)
        for reset in await account.database.read(
            lambda conn: chats.list_unreviewed(conn, profile, platform)
        ):
            await self._review(reset)
        return LOOK_S

    async def _review(self, reset: Reset) -> None:
        """Ask the agent to review a session that has ended; later, if the agent is away."""
        account = self._account
        review = (reset.review_id, reset.old_session_id, account.profile, account.platform)
        if await request_review(self._agent, *review):
            await account.write(partial(chats.mark_reviewed, reset=reset))

    async def _try_to_end(self, found: Due) -> None:
        """End a chat's session; a failure is logged and does not affect other chats."""
        try:
            await self._end(found, received=True)
        except Fenced:
            raise  # the account is lost, and with it all of its chats
        except HermesError as error:
            _log.warning("session %s cannot be ended yet: %s", found.session_id, error)

    async def end_if_due(self, session_key: str) -> None:
        """End a chat's session if it is due; called before each message."""
        account = self._account
        cutoff = self._policy.cutoff(self._clock.now())
        if cutoff is None:
            return
        found = await account.database.read(
            lambda conn: chats.find_last_use(conn, account.profile, session_key)
        )
        if found is not None and found.last_used < cutoff:
            await self._end(found, received=False)

    async def _end(self, found: Due, *, received: bool) -> None:
        account, key = self._account, found.session_key

        def is_open(conn: Connection) -> bool:
            return chats.is_open(conn, account.profile, key, received=received)

        if await account.database.read(is_open):
            return
        session = await self._agent.session(found.session_id, account.profile)
        if session is None:
            await account.write(lambda conn: chats.clear_last_use(conn, account.profile, found))
            return
        if session.is_busy:
            return
        now = self._clock.now()
        reset = Reset(
            new_session_id=new_session_id(now.astimezone()),
            old_session_id=found.session_id,
            session_key=key,
            profile=account.profile,
            why=self._policy.why(found.last_used, now),
        )

        def move(conn: Connection) -> bool:
            return not is_open(conn) and chats.move(conn, reset, found.last_used, now)

        if await account.write(move):
            why = _WHY[Mode(reset.why)]
            _log.info("a chat continues in session %s %s", reset.new_session_id, why)
            chat = Source(account.platform, chat_id="")
            ids = (reset.old_session_id, reset.new_session_id)
            self._hooks.notify_reset(chat, key, *ids, reset.why)
            await self._agent.end_session(reset.old_session_id, account.profile)
            await self._review(reset)


async def request_review(
    agent: AgentClient, review_id: str, session_id: str, profile: str, platform: str
) -> bool:
    """Ask the agent to review a session, once per review id; False if the agent is unreachable."""
    try:
        await agent.request_review(review_id, session_id, profile, platform)
    except Unavailable as error:
        _log.warning("session %s is reviewed later: %s", session_id, error)
        return False
    except AgentRefused as error:
        _log.info("session %s is not reviewed: %s", session_id, error.message)
    return True


def note_message(
    conn: Connection,
    session_key: str,
    turn: TurnRequest,
    address: Address,
    now: datetime,
    *,
    can_resume: Callable[[], bool],
) -> None:
    """Note that a chat's message was accepted; tell the person, once, if a new session has begun.

    If the person `can_resume`, the notice names the command that returns to the last session.
    """
    chats.touch(conn, turn.profile, session_key, now)
    reset = chats.find_unannounced(conn, turn.profile, session_key)
    if reset is None:
        return
    text = f"A new session has begun {_WHY[Mode(reset.why)]}"
    if can_resume():
        text += f"; /{RESUME} `{reset.old_session_id}` returns to the previous one"
    delivery_id, contents = f"rst_{reset.new_session_id}", [Content(f"{text}.")]
    notice = Delivery(delivery_id, address, contents, traceparent=turn.traceparent)
    outbox.add(conn, notice, now)
    chats.mark_announced(conn, reset)
