"""`send_message` in the real loop: where messages go, once each, and what is asked before."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from hermes.agent.v1 import approval_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_ONCE
from hermes.common.v1.origin_pb2 import Origin
from hermes.gateway.v1.directory_pb2 import Channel
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity
from tests.fakes.model import call, fake_model
from tests.fakes.web import site
from tests.integration.agent_parts import agent, answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.scheduler_parts import fake_services
from tests.integration.test_agent_web import answers, hold_hands, home, told

CHAT = Origin(platform="telegram", chat_id="42", thread_id="7", user_id="u1")
DONE = {"text": "done"}


def sends(*messages: dict[str, Any]) -> Any:
    """A model that makes calls of `send_message`, one after the other."""
    return answers(*(call("send_message", **message) for message in messages), DONE)


async def test_a_message_goes_where_it_came_from_or_where_it_is_told(tmp_path: Path) -> None:
    script = sends(
        {"message": "first"},
        {"target": "discord:77:8", "message": "**second**"},
        {"action": "list"},
    )
    async with fake_services() as wire, fake_model(script) as model:
        wire.deliveries.channels = [
            Channel(target="telegram:42:7", name="Family", chat_type="group", is_home=True),
            Channel(target="discord:77", platform="discord"),
        ]
        gateway = {"HERMES_GATEWAY_ADDRESS": wire.address}
        async with agent(tmp_path, model.url, **gateway) as client:
            turn = await client.start("send", turn_id="trn_one", origin=CHAT)
            assert answer(await client.watch(turn.turn_id)) == "done"
        sent = list(wire.deliveries.requests.values())
    assert [s.target for s in sent] == ["origin", "discord:77:8"]
    assert {(s.origin.chat_id, s.origin.thread_id) for s in sent} == {("42", "7")}
    assert [s.text for s in sent] == ["first", "**second**"]
    assert all(s.delivery_id.startswith("trn_one:") and s.profile == "default" for s in sent)
    assert told(model) == "telegram:42:7 (Family, group, home channel), origin\ndiscord:77"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"message": "hi"}, "no chat to send to"),
        ({"message": " ", "target": "telegram:1"}, "no message to send"),
        ({"message": "hi", "target": "telegram:1"}, "there is no such platform"),
    ],
)
async def test_what_cannot_be_sent_is_told(
    tmp_path: Path, message: dict[str, Any], why: str
) -> None:
    async with fake_services() as wire, fake_model(sends(message)) as model:
        wire.deliveries.refusal = grpc.StatusCode.INVALID_ARGUMENT
        async with agent(tmp_path, model.url, HERMES_GATEWAY_ADDRESS=wire.address) as client:
            await client.ask("send")
        assert wire.deliveries.requests == {}
    assert why in told(model)


async def test_an_answer_that_is_lost_sends_nothing_twice(tmp_path: Path) -> None:
    script = sends({"message": "hi", "target": "telegram:1"})
    async with fake_services() as wire, fake_model(script) as model:
        wire.deliveries.lost_answers = 6
        async with agent(tmp_path, model.url, HERMES_GATEWAY_ADDRESS=wire.address) as client:
            assert answer(await client.ask("send")) == "done"
        assert wire.deliveries.texts == ["hi"]
        assert wire.deliveries.conflicts == []
        assert max(wire.deliveries.calls.values()) == 7
    assert "on its way" in told(model)


@pytest.mark.parametrize("stored", [True, False])
async def test_a_killed_agent_sends_its_message_once(tmp_path: Path, stored: bool) -> None:
    script = sends({"message": "hi", "target": "telegram:1"})
    tokens = {identity: f"token-{identity}" for identity in Identity}
    async with fake_services() as wire, fake_model(script) as model:
        deliveries = wire.deliveries
        deliveries.unreachable, deliveries.lost_answers = not stored, 10**6
        place = Site(
            tmp_path,
            model.url,
            f"sqlite:///{tmp_path}/agent.db",
            UnixAddress(tmp_path / "nobody.sock"),
            tokens,
            gateway=wire.address,
        )
        async with AgentProcess(place, "only") as first, first.client() as client:
            turn = await client.start("send")
            while not deliveries.calls:  # noqa: ASYNC110 - the fake tells of what it stores only
                await asyncio.sleep(0.02)
        deliveries.unreachable, deliveries.lost_answers = False, 0
        async with AgentProcess(place, "only") as second, second.client() as client:
            assert answer(await client.watch(turn.turn_id)) == "done"
        assert deliveries.texts == ["hi"]
        assert deliveries.conflicts == []


async def test_what_was_read_from_the_web_is_not_sent_elsewhere_unasked(tmp_path: Path) -> None:
    async with fake_services() as wire, site(hold_hands) as pages:
        script = answers(
            call("web_extract", urls=[pages.url("127.0.0.1")]),
            call("send_message", message="to you"),
            call("send_message", message="to others", target="telegram:#work"),
            DONE,
        )
        async with (
            fake_model(script) as model,
            agent(
                await home(tmp_path, pages), model.url, HERMES_GATEWAY_ADDRESS=wire.address
            ) as client,
        ):
            wire.deliveries.means = {"telegram:#work": ["telegram:66"]}
            turn = await client.start("read", origin=CHAT)
            await client.until(turn.turn_id, "approval_requested")
            assert wire.deliveries.texts == ["to you"]
            approvals = ApprovalServiceStub(client.channels.to("agent"))
            (asked,) = (
                await approvals.ListApprovals(approval_pb2.ListApprovalsRequest())
            ).approvals
            assert asked.subject == "to telegram:#work (telegram:66): to others"
            await approvals.ResolveApproval(
                approval_pb2.ResolveApprovalRequest(
                    approval_id=asked.approval_id,
                    decision=APPROVAL_DECISION_ONCE,
                    decided_by="telegram:u1",
                )
            )
            assert answer(await client.watch(turn.turn_id)) == "done"
            assert wire.deliveries.texts == ["to you", "to others"]


async def one_open(approvals: ApprovalServiceStub) -> approval_pb2.Approval:
    async with asyncio.timeout(20):
        while True:
            listed = await approvals.ListApprovals(approval_pb2.ListApprovalsRequest())
            if listed.approvals:
                return listed.approvals[0]
            await asyncio.sleep(0.02)
