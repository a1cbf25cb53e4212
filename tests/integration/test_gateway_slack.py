"""Slack through the gateway with the real agent, in a workspace on a socket."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes.gateway.v1.delivery_pb2 import DELIVERY_STATE_SENT
from tests.fakes.model import FakeModel, answers, fake_model
from tests.fakes.slack import APP_TOKEN, TOKEN, FakeSlack, fake_slack
from tests.integration.gateway_parts import Hermes, hermes
from tests.integration.test_gateway_deliveries import Sender

RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}


@asynccontextmanager
async def workspace(
    folder: Path, script: Mapping[str, Any], yaml: str = ""
) -> AsyncGenerator[tuple[FakeSlack, Hermes, FakeModel]]:
    """A workspace in which Ada and Eve may talk to the app, whose model is scripted."""
    async with fake_slack() as slack, fake_model(script) as model:
        environ = {
            "SLACK_BOT_TOKEN": TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "SLACK_BASE_URL": slack.url,
            "SLACK_ALLOWED_USERS": "U7, U9",
        }
        async with hermes(folder, model.url, yaml, environ) as running:
            yield slack, running, model


async def test_a_mention_is_answered_in_its_thread(tmp_path: Path) -> None:
    async with workspace(tmp_path, answers({"text": "re: {user}"})) as (slack, running, _):
        ts = await slack.say("C1", "<@UBOT> hello")
        await slack.until(lambda: "hello" in "".join(slack.texts("C1")))
        await slack.say("C1", "who are you?", thread_ts=ts, parent_user_id="U7")
        await slack.until(lambda: "who are you?" in slack.texts("C1")[-1])
        assert {shown.thread for shown in slack.chats["C1"].values()} == {ts}
        assert slack.unacknowledged == 0
        [[sessions]] = await running.rows("gateway", "SELECT count(*) FROM chat_session")
        assert sessions == 1
        seen = "SELECT chat_id, thread_id, name, chat_type FROM channel"
        assert await running.rows("gateway", seen) == [("C1", "", "ops", "channel")]


async def test_a_button_in_a_thread_decides(tmp_path: Path) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "It was not allowed."}]}]}
    async with workspace(tmp_path, script, "approvals: {mode: manual}") as (slack, *_):
        ts = await slack.say("C1", "<@UBOT> clean up")
        await slack.until(lambda: any("rm -r src" in text for text in slack.texts("C1")))
        question_id, question = list(slack.chats["C1"].items())[1]
        await slack.press("C1", question_id, question.buttons[-1], "U9", ts)
        await slack.until(lambda: slack.texts("C1")[0] == "It was not allowed.")
        await slack.until(lambda: slack.texts("C1")[1].startswith("Denied by slack:U9"))
        assert question.buttons == []
        assert slack.ephemeral == []


async def test_a_message_to_a_person_goes_to_their_direct_chat(tmp_path: Path) -> None:
    async with workspace(tmp_path, answers({"text": "Hello!"})) as (slack, running, _):
        deliveries = Sender(running)
        await deliveries.deliver("one", "Good morning.", "U7", "slack")
        await deliveries.deliver("two", "Good night.", "C1", "slack")
        for delivery_id in ("one", "two"):
            assert (await deliveries.ended(delivery_id)).state == DELIVERY_STATE_SENT
        assert (slack.texts("DU7"), slack.texts("C1")) == (["Good morning."], ["Good night."])
        [own] = slack.chats["C1"]
        await slack.say("C1", "sleep well", thread_ts=own, parent_user_id="UBOT")
        await slack.until(lambda: slack.texts("C1")[1:] == ["Hello!"])
