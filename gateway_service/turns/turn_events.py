"""Tells hooks of the turns of HTTP clients, which no chat shows."""

import logging
from contextlib import aclosing, suppress

from msgspec import Struct

from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient
from gateway_service.messages import API, TurnRequest
from gateway_service.turns.presenter import render_answer
from services.errors import Draining, HermesError
from services.lifecycle import Workers

_log = logging.getLogger(__name__)


class TurnEvents(Struct, frozen=True):
    """Follows turns for hooks, whether or not their clients stay."""

    agent: AgentClient
    hooks: Hooks
    workers: Workers

    def follow(self, turn: TurnRequest, session_key: str) -> None:
        """Tell hooks of a turn that has just begun; `session_key` is that of a new session."""
        if turn.source.platform != API or not self.hooks.are_used:
            return
        if session_key:
            self.hooks.notify_chat(
                "session:start", turn.source, turn.session_id, session_key=session_key
            )
        with suppress(Draining):
            self.workers.start(f"hooks of {turn.turn_id}", self._follow(turn))

    async def _follow(self, turn: TurnRequest) -> None:
        tools = list[str]()
        self.hooks.notify_turn("agent:start", turn)
        watching = self.agent.watch(turn.turn_id, turn.profile, max_deltas_per_second=1)
        try:
            async with aclosing(watching) as batches:
                async for event in (event async for batch in batches for event in batch):
                    match event.WhichOneof("kind"):
                        case "tool_started":
                            tools.append(event.tool_started.name)
                        case "text_finished":
                            step = event.text_finished.step
                            self.hooks.notify_turn(
                                "agent:step", turn, iteration=step, tool_names=[*tools]
                            )
                            tools.clear()
                        case "turn_finished":
                            answer = render_answer(event.turn_finished)
                            self.hooks.notify_turn("agent:end", turn, response=answer)
                        case _:
                            pass
        except HermesError as error:
            _log.warning("hooks miss the end of turn %s: %s", turn.turn_id, error)
