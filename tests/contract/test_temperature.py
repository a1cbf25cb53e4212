"""How freely words are to be chosen is said to models that can be told, in every wire format."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.models.wires.messages import Messages
from agent_service.models.wires.responses import Responses
from agent_service.models.wires.wire import Wire
from tests.contract.models import NO_RETRIES, answer, ask, endpoint_at, request
from tests.fakes.messages import MESSAGES
from tests.fakes.model import answers, fake_model
from tests.fakes.model_server import Speech
from tests.fakes.responses import RESPONSES

REJECTED = {
    "status": 400,
    "error": {"error": {"message": "Unsupported value: 'temperature' is not supported."}},
}
USER = {"role": "user", "content": "Hello"}
WIRES = [(ChatCompletions, None), (Messages, MESSAGES), (Responses, RESPONSES)]


@pytest.mark.parametrize(("wire", "speech"), WIRES)
async def test_a_model_that_takes_no_temperature_is_spared_it_from_then_on(
    wire: Callable[[], Wire], speech: Speech | None
) -> None:
    wanted = replace(request(USER), temperature=0.3)
    async with (
        fake_model(answers(REJECTED, {"text": "Hi"}), speech) as server,
        Provider(endpoint_at(server.url), wire(), NO_RETRIES) as model,
    ):
        assert (await answer(model, wanted)).text == "Hi"
        await ask(model, wanted)
        await ask(model, request(USER))
    assert [body.get("temperature") for body in server.bodies] == [0.3, None, None, None]


async def test_a_model_that_thinks_chooses_for_itself() -> None:
    async with (
        fake_model(answers({"text": "Hi"}), MESSAGES) as server,
        Provider(endpoint_at(server.url), Messages(effort="low"), NO_RETRIES) as model,
    ):
        await ask(model, replace(request(USER), temperature=0.3))
    assert "temperature" not in server.bodies[0]
    assert "thinking" in server.bodies[0]
