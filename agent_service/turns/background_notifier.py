"""Notifies the model about events, and sends its answer to the chat that started them."""

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
"""When to retry a delivery whose outcome is unknown."""

_log = logging.getLogger(__name__)


class BackgroundNotifier(Struct, frozen=True):
    """Starts turns that tell the model of an event.

    If the session is working, they join with its next tool results; otherwise the response goes to
    the origin of the session's messages. Their ids derive from the event, so retries find the same
    turn.
    """

    turns: Callable[[], Turns]
    """Looked up lazily: turns run tools, and this reports on what tools start."""
    toolsets: ToolsConfig
    messenger: Messenger
    clock: Clock

    async def tell(self, watched: WatchedCommand, news: CommandNews) -> None:
        """Report on a command, and return when this is done; NotFound if the session is gone."""
        turn_id = turn_id_of(watched.key, news.progress.told)
        request = replace(watched.request, turn_id=turn_id, text=news.text)
        # Toolsets may have been turned off meanwhile.
        allowed = self.toolsets.toolsets_for(
            request.profile, request.platform, request.options.toolsets
        )
        try:
            await self.turns().start(replace(request, allowed=allowed))
        except Draining:
            # The next watcher of the command reports.
            await asyncio.Event().wait()
        finished = await self.turns().watching.wait_for_end(request.turn_id, request.profile)
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
    """Return the template for turns that report on what a turn started; without ids and texts."""
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
    """Return the id of the turn for a numbered report of a command."""
    return f"trn_{hashlib.sha256(f'{key}/notice/{number}'.encode()).hexdigest()[:26]}"


def _answer(finished: TurnFinished) -> str:
    if finished.outcome is Outcome.CANCELLED or finished.text == PASSED_ON:
        return ""
    if finished.outcome is Outcome.COMPLETED:
        return finished.text.strip()
    return "\n\n".join(filter(None, (finished.text, finished.message))).strip()


def _target(request: TurnRequest) -> Target | None:
    if request.platform == CLI:
        return Target(CLI, request.session_id)
    return Target.of_origin(request.origin)
