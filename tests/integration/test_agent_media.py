"""Files that `send_message` sends: out of real sandboxes, as a person has seen them, once each."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hermes.agent.v1 import approval_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_ONCE,
    APPROVAL_DECISION_SESSION,
    ApprovalDecision,
)
from hermes.agent.v1.turn_pb2 import InterruptTurnRequest
from hermes.common.v1.origin_pb2 import Origin
from hermes.gateway.v1.delivery_pb2 import DeliverRequest
from tests.fakes.deliveries import FakeDeliveries
from tests.fakes.model import FakeModel, call, fake_model
from tests.fakes.web import Site as Pages
from tests.fakes.web import site
from tests.integration.agent_parts import answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.scheduler_parts import fake_services
from tests.integration.test_agent_messages import one_open
from tests.integration.test_agent_web import answers, hold_hands, home, told
from tests.support.executors import end_boxes, executor_settings, serving

CHAT = Origin(platform="telegram", chat_id="42", user_id="u1")
DONE = {"text": "done"}
PNG = b"\x89PNG\r\n\x1a\n" + b"picture" * 100


@dataclass(frozen=True)
class Stage:
    """What stands around an agent."""

    place: Site
    deliveries: FakeDeliveries
    model: FakeModel

    @property
    def sent(self) -> list[tuple[str, dict[str, bytes]]]:
        """The texts that were delivered, with the files by name."""
        return [(it.text, self._files(it)) for it in self.deliveries.requests.values()]

    def _files(self, request: DeliverRequest) -> dict[str, bytes]:
        files, key = self.deliveries.files, request.delivery_id
        return {each.name: files[key, each.sha256] for each in request.attachments}

    async def change(self, name: str, data: bytes) -> None:
        """Let a file of the workspace have another content."""
        (found,) = await asyncio.to_thread(lambda: [*self.place.folder.rglob(name)])
        await asyncio.to_thread(found.write_bytes, data)


@asynccontextmanager
async def stage(folder: Path, *steps: Any, reads: bool = False) -> AsyncGenerator[Stage]:
    """A real executor, a gateway, and a model that answers in these steps, after it has read a page
    of the site where it `reads`. A step that is a function gets the site.
    """
    settings = executor_settings(folder, "bubblewrap")
    async with AsyncExitStack() as stack:
        executor = await stack.enter_async_context(serving(settings))
        wire = await stack.enter_async_context(fake_services())
        pages = await stack.enter_async_context(site(_serve))
        taken = [_reading] if reads else []
        script: list[Any] = [
            step(pages) if callable(step) else step for step in (*taken, *steps, DONE)
        ]
        model = await stack.enter_async_context(fake_model(answers(*script)))
        database = f"sqlite:///{folder}/agent.db"
        parts = (folder, model.url, database, executor.address, executor.tokens)
        await asyncio.to_thread((folder / "only").mkdir)
        await home(folder / "only", pages)
        yield Stage(Site(*parts, gateway=wire.address), wire.deliveries, model)
    await end_boxes(settings)


async def _serve(request: web.Request) -> web.StreamResponse:
    if request.path.endswith(".png"):
        return web.Response(body=PNG, content_type="image/png")
    return await hold_hands(request)


def _reading(pages: Pages) -> Any:
    return call("web_extract", urls=[pages.url("127.0.0.1")])


def shell(command: str) -> Any:
    """A step of the model in which it runs a command."""
    return call("terminal", command=command)


def sends(message: str, target: str = "origin") -> Any:
    """A step of the model in which it sends a message."""
    return call("send_message", message=message, target=target)


async def test_files_go_with_the_message_that_names_them(tmp_path: Path) -> None:
    message = "Two files:\nMEDIA:/workspace/a plot.png\n  MEDIA: b.txt \n```\nMEDIA:c.txt\n```\n"
    async with (
        stage(tmp_path, shell("printf 'a\\0b' >'a plot.png'; echo b >b.txt"), sends(message)) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("send", origin=CHAT)
        assert answer(await client.watch(turn.turn_id)) == "done"
        text = "Two files:\n```\nMEDIA:c.txt\n```"
        assert on.sent == [(text, {"a plot.png": b"a\0b", "b.txt": b"b\n"})]
        assert told(on.model).startswith("The message to telegram:42 is on its way, with ")
        assert "a plot.png (3 bytes), b.txt (2 bytes)" in told(on.model)


async def test_the_model_hears_what_the_chat_cannot_be_shown(tmp_path: Path) -> None:
    async with (
        stage(tmp_path, shell("echo b >b.txt"), sends("MEDIA:b.txt")) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        on.deliveries.cannot_take = frozenset({"b.txt"})
        await client.watch((await client.start("send", origin=CHAT)).turn_id)
        assert on.sent == [("", {"b.txt": b"b\n"})]
        assert "That chat cannot show b.txt" in told(on.model)


UNSENDABLE = (
    ("MEDIA:none.txt", "There is no none.txt."),
    ("hi\nMEDIA:empty", "empty cannot be sent, so nothing was"),
    ("MEDIA:/workspace", "/workspace cannot be sent"),
    ("MEDIA:https://example.com/a.png", "is not a file of the sandbox"),
    ("MEDIA:large", "large is longer than the 50,000,000 bytes"),
    ("MEDIA:half\nMEDIA:large", "large is longer than the 20,000,000 bytes"),
    ("\n".join(["MEDIA:half"] * 11), "at most 10 files"),
)


async def test_what_is_no_file_to_send_is_told_and_nothing_is_sent(tmp_path: Path) -> None:
    made = shell("touch empty; truncate -s 30000000 half; truncate -s 50000001 large")
    calls = [part for message, _ in UNSENDABLE for part in sends(message)["tool_calls"]]
    async with (
        stage(tmp_path, made, {"tool_calls": calls}) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        await client.watch((await client.start("send", origin=CHAT)).turn_id)
        assert on.sent == []
        assert on.deliveries.files == {}
    _, *results = [m["content"] for m in on.model.bodies[-1]["messages"] if m["role"] == "tool"]
    for (_, why), result in zip(UNSENDABLE, results, strict=True):
        assert why in result


async def decide(
    approvals: ApprovalServiceStub, approval_id: str, decision: ApprovalDecision.ValueType
) -> None:
    await approvals.ResolveApproval(
        approval_pb2.ResolveApprovalRequest(
            approval_id=approval_id, decision=decision, decided_by="telegram:u1"
        )
    )


async def test_what_a_person_allows_is_the_file_as_it_was_shown(tmp_path: Path) -> None:
    leave = sends("hi\nMEDIA:b.txt", "telegram:66")
    one, three = shell("echo one >b.txt"), shell("echo three >b.txt")
    async with (
        stage(tmp_path, one, *([leave] * 3), three, leave, reads=True) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("read", origin=CHAT)
        approvals = ApprovalServiceStub(client.channels.to("agent"))
        first = await one_open(approvals)
        digest = hashlib.sha256(b"one\n").hexdigest()[:16]
        shown = f"to telegram:66\nwith the file b.txt (4 bytes), SHA-256 {digest}: hi"
        assert first.subject == shown
        assert on.deliveries.files == {}, "nothing leaves before somebody has decided"
        await on.change("b.txt", b"two\n")
        await decide(approvals, first.approval_id, APPROVAL_DECISION_ONCE)
        second = await one_open(approvals)
        assert "has changed since the user approved it" in told(on.model)
        assert on.sent == []
        await decide(approvals, second.approval_id, APPROVAL_DECISION_SESSION)
        # The same once more needs no question, another content does.
        third = await one_open(approvals)
        assert "b.txt (6 bytes)" in third.subject
        assert on.sent == [("hi", {"b.txt": b"two\n"})] * 2
        await client.turns.InterruptTurn(InterruptTurnRequest(turn_id=turn.turn_id))


ANSWER = {"text": "Here it is:\nMEDIA:b.txt"}


async def test_files_that_an_answer_names_go_to_its_chat(tmp_path: Path) -> None:
    async with (
        stage(tmp_path, shell("echo b >b.txt"), ANSWER) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("send", origin=CHAT)
        assert answer(await client.watch(turn.turn_id)) == "Here it is:"
        assert on.sent == [("", {"b.txt": b"b\n"})]
        assert len(on.model.requests) == 2
        # What follows is told the answer as the model gave it.
        await client.watch((await client.start("more", origin=CHAT)).turn_id)
        assert {"role": "assistant", "content": ANSWER["text"]} in on.model.bodies[-1]["messages"]


@pytest.mark.parametrize("stored", [True, False])
async def test_a_killed_agent_sends_its_file_once(tmp_path: Path, stored: bool) -> None:
    """What was taken is not taken again, though the file says something else by then."""
    async with stage(tmp_path, shell("echo one >b.txt"), sends("hi\nMEDIA:b.txt")) as on:
        on.deliveries.unreachable, on.deliveries.lost_answers = not stored, 10**6
        async with AgentProcess(on.place, "only") as first, first.client() as client:
            turn = await client.start("send", origin=CHAT)
            await on.model.until(lambda: len(on.model.requests) == 2)
            while stored and not on.deliveries.calls:  # noqa: ASYNC110 - it tells of what it stores only
                await asyncio.sleep(0.02)
        await on.change("b.txt", b"two\n")
        on.deliveries.unreachable, on.deliveries.lost_answers = False, 0
        async with AgentProcess(on.place, "only") as second, second.client() as client:
            assert answer(await client.watch(turn.turn_id)) == "done"
        assert on.sent == [("hi", {"b.txt": b"one\n" if stored else b"two\n"})]
        assert on.deliveries.conflicts == []
        assert "on its way" in told(on.model)


async def test_an_answer_says_which_files_it_lacks(tmp_path: Path) -> None:
    text = "Here they are:\nMEDIA:none.txt\nMEDIA:b.txt\nand ![c](c.png)."
    async with (
        stage(tmp_path, shell("echo b >b.txt"), {"text": text}) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("send", origin=CHAT)
        told_user = answer(await client.watch(turn.turn_id))
        assert told_user.split("\n\n") == [
            "Here they are:\nand .",
            "(none.txt was not sent: There is no none.txt.)",
            "(c.png was not sent: There is no c.png.)",
        ]
        assert on.sent == [("", {"b.txt": b"b\n"})]


async def test_pictures_of_an_answer_are_sent_with_their_captions(tmp_path: Path) -> None:
    def show(pages: Pages) -> Any:
        of_the_web = pages.url("127.0.0.1", "/otter.png?size=1")
        text = f"Both:\n![The plot](sandbox:/workspace/plot.png)\n![]({of_the_web})\n`![a](b)`"
        return {"text": text}

    async with (
        stage(tmp_path, shell("printf plot >plot.png"), show) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("draw", origin=CHAT)
        assert answer(await client.watch(turn.turn_id)) == "Both:\n`![a](b)`"
        assert on.sent == [("", {"plot.png": b"plot", "otter.png": PNG})]
        [request] = on.deliveries.requests.values()
        assert [each.caption for each in request.attachments] == ["The plot", ""]


async def test_after_untrusted_text_no_address_of_the_model_is_fetched(tmp_path: Path) -> None:
    """The address could tell its server what the model has read."""

    def leak(pages: Pages) -> Any:
        return {"text": f"Look: ![it]({pages.url('127.0.0.1', '/otter.png?secret=1')})"}

    async with (
        stage(tmp_path, leak, reads=True) as on,
        AgentProcess(on.place, "only") as running,
        running.client() as client,
    ):
        turn = await client.start("read", origin=CHAT)
        said = answer(await client.watch(turn.turn_id))
        assert said.startswith("Look:\n\n(http://127.0.0.1")
        assert said.endswith("was not sent: only the model has named this address.)")
        assert on.sent == []


async def test_a_killed_agent_sends_the_files_of_its_answer_once(tmp_path: Path) -> None:
    async with stage(tmp_path, shell("echo one >b.txt"), ANSWER) as on:
        on.deliveries.lost_answers = 10**6
        async with AgentProcess(on.place, "only") as first, first.client() as client:
            turn = await client.start("send", origin=CHAT)
            while not on.deliveries.calls:  # noqa: ASYNC110 - it tells of what it stores only
                await asyncio.sleep(0.02)
        await on.change("b.txt", b"two\n")
        on.deliveries.lost_answers = 0
        async with AgentProcess(on.place, "only") as second, second.client() as client:
            assert answer(await client.watch(turn.turn_id)) == "Here it is:"
        assert on.sent == [("", {"b.txt": b"one\n"})]
        assert on.deliveries.conflicts == []
        assert len(on.model.requests) == 2
