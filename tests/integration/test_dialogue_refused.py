"""A conversation whose gateway refuses it while the client is still writing."""

from contextlib import aclosing
from pathlib import Path

import grpc.aio
import pytest

from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from services.cli.chat.dialogue import Dialogue
from tests.fakes.refusals import refusing_gateway

WHY = "the disk is full"
TIMES = 20
"""In some of them gRPC hides the reason behind a write that failed."""


async def test_the_reason_arrives_whatever_was_being_written(tmp_path: Path) -> None:
    async with refusing_gateway(tmp_path, WHY) as channel:
        told = {await refused(channel) for _ in range(TIMES)}
    assert told == {WHY}


async def refused(channel: grpc.aio.Channel) -> str | None:
    """What a conversation ends with in which something was said."""
    dialogue = Dialogue(channel, ConverseRequest.Open())
    dialogue.say("hello")
    async with aclosing(dialogue.responses()) as responses:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(responses)
    return caught.value.details()
