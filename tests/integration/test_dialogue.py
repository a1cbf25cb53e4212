"""A client's conversation while the gateway has no database."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_DENY,
    ApprovalRequested,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.cli.chat.dialogue import Dialogue
from services.errors import Reason, reason_of
from tests.fakes.conversations import BrokenConversations, serving


def accepted(number: int) -> ConverseResponse:
    """A message has its turn."""
    told = ConverseResponse.Accepted(message_id=f"msg_{number}", turn_id=f"trn_{number}")
    return ConverseResponse(accepted=told)


def happened(turn_id: str, **event: Any) -> ConverseResponse:
    """Something happened in a turn."""
    events = [TurnEvent(**event)]
    return ConverseResponse(event=ConverseResponse.Event(turn_id=turn_id, events=events))


@asynccontextmanager
async def following(
    gateway: BrokenConversations,
) -> AsyncGenerator[tuple[Dialogue, AsyncGenerator[ConverseResponse]]]:
    """A conversation, and what it hears."""
    async with serving(gateway) as channel:
        dialogue = Dialogue(channel, ConverseRequest.Open())
        async with aclosing(dialogue.responses()) as responses:
            yield dialogue, responses


ACCEPTED = accepted(1)
LAST = ConverseResponse(reply=ConverseResponse.Reply(text="that is all"))


async def test_who_follows_a_turn_goes_on_when_the_database_is_back() -> None:
    gateway = BrokenConversations([[ACCEPTED], [], [LAST]])
    async with asyncio.timeout(20), following(gateway) as (dialogue, responses):
        dialogue.say("hello", "msg_1")
        assert [await anext(responses), await anext(responses)] == [ACCEPTED, LAST]
    watched = [[each.turn_id for each in opening.watched_turns] for opening in gateway.openings]
    assert watched == [[], ["trn_1"], ["trn_1"]]


async def test_a_number_sends_the_choice_that_the_last_reply_offers() -> None:
    offer = ConverseResponse(reply=ConverseResponse.Reply(text="Which?"))
    for name in ("one", "two"):
        offer.reply.choices.add(label=name, message=f"/model {name}")
    gateway = BrokenConversations([[offer, offer, LAST]])
    async with asyncio.timeout(20), following(gateway) as (dialogue, responses):
        await anext(responses)
        assert dialogue.choices.lines == "1. one\n2. two"
        assert [dialogue.choices.message(said) for said in ("2", "3", "0", "²", "hello")] == [
            "/model two",
            "3",
            "0",
            "²",
            "hello",
        ]
        dialogue.say("1")
        assert dialogue.choices.lines == ""
        await anext(responses)
        await anext(responses)
        assert dialogue.choices.lines == "", "another reply offers nothing"


async def test_who_talks_waits_while_a_command_has_the_home_without_a_gateway() -> None:
    gateway = BrokenConversations([[ACCEPTED, LAST]], unserved=2)
    async with asyncio.timeout(20), following(gateway) as (dialogue, responses):
        dialogue.say("hello", "msg_1")
        assert [await anext(responses), await anext(responses)] == [ACCEPTED, LAST]


async def test_who_says_something_is_told_that_it_is_not_taken() -> None:
    gateway = BrokenConversations([*[[]] * 20, [LAST]])
    async with asyncio.timeout(20), following(gateway) as (dialogue, responses):
        dialogue.say("hello")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await anext(responses)
    assert reason_of(refused.value) is Reason.DATABASE_UNAVAILABLE


async def test_all_turns_that_have_not_ended_are_followed_after_a_break() -> None:
    started = happened("trn_2", sequence=1, turn_started=TurnStarted())
    ended = happened("trn_1", sequence=3, turn_finished=TurnFinished())
    said = [accepted(1), accepted(2), accepted(3)]
    gateway = BrokenConversations([said, [ended, started], [LAST]])
    async with asyncio.timeout(20), following(gateway) as (_, responses):
        for expected in (*said, ended, started, LAST):
            assert await anext(responses) == expected
    followed = [
        {each.turn_id: each.after_sequence for each in opening.watched_turns}
        for opening in gateway.openings
    ]
    assert followed == [{}, {"trn_1": 0, "trn_2": 0, "trn_3": 0}, {"trn_2": 1, "trn_3": 0}]


async def test_what_was_decided_is_said_again_until_its_own_turn_has_it() -> None:
    asked = happened("trn_1", approval_requested=ApprovalRequested(approval_id="apr_1"))
    other = happened("trn_2", sequence=1, turn_finished=TurnFinished())
    ended = happened("trn_1", sequence=2, turn_finished=TurnFinished())
    streams = [[accepted(1), accepted(2), asked], [other], [ended], [LAST]]
    gateway = BrokenConversations(streams, awaited=(0, 2, 2, 0))
    async with asyncio.timeout(20), following(gateway) as (dialogue, responses):
        for _ in range(3):
            await anext(responses)
        dialogue.decide("apr_1", APPROVAL_DECISION_DENY)
        dialogue.interrupt()
        assert [await anext(responses) for _ in range(3)] == [other, ended, LAST]
    for decided, interrupted in gateway.requests[1:3]:
        assert decided.approval_answer.approval_id == "apr_1"
        assert interrupted.interrupt.turn_id == "trn_1"
