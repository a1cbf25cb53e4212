"""A client's conversation while the gateway has no database."""

import asyncio
from contextlib import aclosing

import grpc.aio
import pytest

from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.cli.dialogue import Dialogue
from services.errors import Reason, reason_of
from tests.fakes.conversations import BrokenConversations, serving

ACCEPTED = ConverseResponse(accepted=ConverseResponse.Accepted(message_id="msg_1", turn_id="trn_1"))
LAST = ConverseResponse(reply=ConverseResponse.Reply(text="that is all"))


async def test_who_follows_a_turn_goes_on_when_the_database_is_back() -> None:
    gateway = BrokenConversations([[ACCEPTED], [], [LAST]])
    async with serving(gateway) as channel, Dialogue(channel, ConverseRequest.Open()) as dialogue:
        await dialogue.say("hello", "msg_1")
        async with asyncio.timeout(20), aclosing(dialogue.responses()) as responses:
            assert [await anext(responses), await anext(responses)] == [ACCEPTED, LAST]
    assert [opening.turn_id for opening in gateway.openings] == ["", "trn_1", "trn_1"]


async def test_who_says_something_is_told_that_it_is_not_taken() -> None:
    gateway = BrokenConversations([*[[]] * 20, [LAST]])
    async with serving(gateway) as channel, Dialogue(channel, ConverseRequest.Open()) as dialogue:
        await dialogue.say("hello")
        async with aclosing(dialogue.responses()) as responses:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(responses)
    assert reason_of(refused.value) is Reason.DATABASE_UNAVAILABLE
