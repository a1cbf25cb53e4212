"""The Responses API as the models of a ChatGPT subscription speak it."""

from collections.abc import Mapping

from msgspec.structs import replace

from agent_service.models.base import ModelRequest
from agent_service.models.responses import Responses
from agent_service.models.wire import Dialect


class Codex(Responses):
    """Requests and answers of OpenAI Codex: always with instructions, never with a cap."""

    usual_instructions = "Answer what you are asked."

    def headers(self) -> Mapping[str, str]:
        """Who calls, and by which rules."""
        return {"originator": "hermes", "OpenAI-Beta": "responses=experimental"}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the request; the subscription has its own limits, and none for one answer."""
        return super().body(request, replace(dialect, output_cap=False))
