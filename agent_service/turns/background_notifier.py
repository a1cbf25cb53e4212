"""Tells the model of what has happened, and whoever began it what the model says to that."""

import asyncio
import hashlib
import logging
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from agent_service.config.tools import ToolsConfig
from agent_service.records.background import CommandNews, WatchedCommand
from agent_service.records.events import Outcome, TurnFinished
from agent_service.records.messages import Message, Messenger, NotSent, SendingUnknown, Target
from agent_service.records.requests import NOTICE, BusyMode, TurnRequest
from agent_service.records.turn_state import LiveTurn
from agent_service.storage.steering import PASSED_ON
from agent_service.turns.service import Turns
from services.clock import Clock
from services.errors import Draining

CLI = "cli"
AGAIN_S = 30.0
"""After which an answer is handed over again that may not have been taken."""

_log = logging.getLogger(__name__)


class Notices(Struct, frozen=True):
    """Turns that say what has happened.

    While the session works, they join its work with the next results of its tools; else they are
    turns of their own, whose answer goes to where the session's messages come from. Their ids
    follow from what they tell, so that whoever tells it again finds the same turn.
    """

    turns: Callable[[], Turns]
    """Got when needed: turns run tools, and this is for what tools begin."""
    toolsets: ToolsConfig
    messenger: Messenger
    clock: Clock

    async def tell(self, watched: WatchedCommand, news: CommandNews) -> None:
        """Tell a notice of a command, and return once nothing of it is left to do.

        NotFound where the session is gone.
        """
        turn_id = turn_id_of(watched.key, news.progress.told)
        request = replace(watched.request, turn_id=turn_id, text=news.text)
        # What was turned off meanwhile is off for it, too.
        allowed = self.toolsets.of(request.profile, request.platform, request.options.toolsets)
        try:
            await self.turns().start(replace(request, allowed=allowed))
        except Draining:
            # Whoever watches the command next tells it.
            await asyncio.Event().wait()
        finished = await self.turns().watching.ended(request.turn_id, request.profile)
        await self._deliver(request, finished)

    async def _deliver(self, request: TurnRequest, finished: TurnFinished) -> None:
        text, target = _answer(finished), _target(request)
        if not text or target is None:
            return
        message = Message(request.turn_id, request.profile, target, text)
        while True:
            try:
                await self.messenger.send(message)
            except NotSent as error:
                _log.warning("the answer of turn %s is not sent: %s", request.turn_id, error)
            except SendingUnknown:
                await self.clock.sleep(AGAIN_S)
                continue
            return


def notice_of(turn: LiveTurn) -> TurnRequest:
    """The turns that tell of what a turn has begun, but for their ids and texts."""
    return TurnRequest(
        turn_id="",
        profile=turn.profile,
        session_id=turn.session_id,
        text="",
        origin=turn.origin,
        kind=NOTICE,
        busy_mode=BusyMode.STEER,
        options=replace(turn.request.inherited(), max_model_calls=0, unattended=None),
    )


def turn_id_of(key: str, number: int) -> str:
    """The id of the turn that tells the notice of this number of a command."""
    return f"trn_{hashlib.sha256(f'{key}/notice/{number}'.encode()).hexdigest()[:26]}"


def _answer(finished: TurnFinished) -> str:
    """What is to be sent; empty where the notice joined other work, or was stopped by a person."""
    if finished.outcome is Outcome.CANCELLED or finished.text == PASSED_ON:
        return ""
    if finished.outcome is Outcome.COMPLETED:
        return finished.text.strip()
    return "\n\n".join(filter(None, (finished.text, finished.message))).strip()


def _target(request: TurnRequest) -> Target | None:
    if request.platform == CLI:
        return Target(CLI, request.session_id)
    return Target.of_origin(request.origin)
