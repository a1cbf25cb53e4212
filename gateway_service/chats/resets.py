"""Lets chats go on in a new session, once they were quiet for as long as their settings say.

Whether that is so is looked at when the time comes, and before each message. The chat gets its new
session in one transaction behind the account's fence, and only if it was not used since. After that
the agent is asked to look back at the old session, as soon as it can be.
"""

import logging
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from gateway_service.clients import AgentClient
from gateway_service.config import Mode, ResetPolicy
from gateway_service.errors import AgentRefused
from gateway_service.messages import Content, TurnRequest
from gateway_service.storage import outbox, resets
from gateway_service.storage.accounts import AccountLease
from gateway_service.storage.outbox import Address, Delivery
from gateway_service.storage.resets import Due, Reset
from services.clock import Clock
from services.database.leases import Fenced
from services.database.queue import poll
from services.errors import HermesError, Unavailable
from services.ids import new_session_id

LOOK_S = 10.0
RESUME = "resume"
"""The command that goes back to an earlier session."""

_log = logging.getLogger(__name__)
_WHY = {Mode.IDLE: "after a pause", Mode.DAILY: "for a new day"}


class Resets:
    """The chats of one account."""

    def __init__(
        self, account: AccountLease, agent: AgentClient, policy: ResetPolicy, clock: Clock
    ) -> None:
        self._account = account
        self._agent = agent
        self._policy = policy
        self._clock = clock

    async def run(self) -> None:
        """End the sessions that are due, until cancelled."""
        await poll("the end of sessions", self.look, retry_s=LOOK_S)

    async def look(self) -> float:
        """End the sessions that are due now, and have the agent review those that have ended;
        return when to look again."""
        account = self._account
        profile, platform = account.profile, account.platform
        if (cutoff := self._policy.cutoff(self._clock.now())) is not None:
            for found in await account.database.read(
                lambda conn: resets.due(conn, profile, platform, cutoff)
            ):
                await self._try_to_end(found)
        for reset in await account.database.read(
            lambda conn: resets.unasked(conn, profile, platform)
        ):
            await self._review(reset)
        return LOOK_S

    async def _review(self, reset: Reset) -> None:
        """Have the agent look back at a session that has ended; where it is away, later."""
        account = self._account
        asking = (reset.review_id, reset.old_session_id, account.profile, account.platform)
        if await ask_to_look_back(self._agent, *asking):
            await account.write(partial(resets.note_asked, reset=reset))

    async def _try_to_end(self, found: Due) -> None:
        """End a chat's session; one that cannot be ended is no reason to leave the others."""
        try:
            await self._end(found, received=True)
        except Fenced:
            raise  # nor can any other
        except HermesError as error:
            _log.warning("session %s is left for later: %s", found.session_id, error)

    async def before(self, session_key: str) -> None:
        """End a chat's session before its next message, if it is due."""
        account = self._account
        cutoff = self._policy.cutoff(self._clock.now())
        if cutoff is None:
            return
        found = await account.database.read(
            lambda conn: resets.used(conn, account.profile, session_key)
        )
        if found is not None and found.last_used < cutoff:
            await self._end(found, received=False)

    async def _end(self, found: Due, *, received: bool) -> None:
        account, key = self._account, found.session_key

        def is_open(conn: Connection) -> bool:
            return resets.is_open(conn, account.profile, key, received=received)

        if await account.database.read(is_open):
            return
        session = await self._agent.session(found.session_id, account.profile)
        if session is None:
            await account.write(lambda conn: resets.is_empty(conn, account.profile, found))
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
            return not is_open(conn) and resets.move(conn, reset, found.last_used, now)

        if await account.write(move):
            why = _WHY[Mode(reset.why)]
            _log.info("a chat goes on in session %s %s", reset.new_session_id, why)
            await self._review(reset)


async def ask_to_look_back(
    agent: AgentClient, review_id: str, session_id: str, profile: str, platform: str
) -> bool:
    """Ask for a last look at a session; returns False where the agent could not be reached.

    It is the same for the same id.
    """
    try:
        await agent.look_back(review_id, session_id, profile, platform)
    except Unavailable as error:
        _log.warning("session %s is looked back at later: %s", session_id, error)
        return False
    except AgentRefused as error:
        _log.info("nobody looks back at session %s: %s", session_id, error.message)
    return True


def note_message(
    conn: Connection,
    session_key: str,
    turn: TurnRequest,
    address: Address,
    now: datetime,
    *,
    can_resume: bool,
) -> None:
    """A message of a chat is accepted: if its session is a new one, its person is told so, once,
    and how to go on with the last one where that may be said there.
    """
    resets.touch(conn, turn.profile, session_key, now)
    reset = resets.untold(conn, turn.profile, session_key)
    if reset is None:
        return
    text = f"A new session has begun {_WHY[Mode(reset.why)]}"
    if can_resume:
        text += f"; /{RESUME} `{reset.old_session_id}` goes on with the last one"
    delivery_id, contents = f"rst_{reset.new_session_id}", [Content(f"{text}.")]
    told = Delivery(delivery_id, address, contents, traceparent=turn.traceparent)
    outbox.add(conn, told, now)
    resets.note_told(conn, reset)
