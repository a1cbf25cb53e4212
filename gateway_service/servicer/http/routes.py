"""The table of the HTTP API."""

from collections.abc import Mapping
from typing import TypeAlias

from gateway_service.servicer.http.chat_completions import ChatCompletions
from gateway_service.servicer.http.exchange import Handler
from gateway_service.servicer.http.responses import Responses
from gateway_service.servicer.http.runs import Runs
from gateway_service.servicer.http.turns import ApiTurns
from services.clock import Clock

Routes: TypeAlias = Mapping[tuple[str, str], Handler]
"""By method and path."""


def api_routes(turns: ApiTurns, clock: Clock) -> Routes:
    """Return the handlers by method and path."""
    chat, responses, runs = ChatCompletions(turns, clock), Responses(turns, clock), Runs(turns)
    return {
        ("GET", "/v1/models"): chat.models,
        ("GET", "/v1/models/{id}"): chat.model,
        ("POST", "/v1/chat/completions"): chat.create,
        ("POST", "/v1/responses"): responses.create,
        ("GET", "/v1/responses/{id}"): responses.get,
        ("POST", "/v1/responses/{id}/cancel"): responses.cancel,
        ("POST", "/v1/runs"): runs.create,
        ("GET", "/v1/runs/{id}"): runs.get,
        ("GET", "/v1/runs/{id}/events"): runs.events,
        ("POST", "/v1/runs/{id}/stop"): runs.stop,
        ("POST", "/v1/runs/{id}/approval"): runs.approve,
        ("POST", "/v1/runs/{id}/answer"): runs.answer,
    }
