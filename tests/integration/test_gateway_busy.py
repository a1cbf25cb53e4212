"""What a message does to the work in progress, also where both services go in between."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import FakeTelegram, fake_telegram
from tests.integration.gateway_parts import client, hermes, opened_again
from tests.integration.test_gateway_telegram import again, bot

LOOK: dict[str, Any] = {"tool_calls": [{"name": "todo", "arguments": {}}], "latency_s": 1.0}
SCRIPT: dict[str, Any] = {
    "rules": [
        {"user": "work", "steps": [LOOK, {"text": "worked"}]},
        {"steps": [{"text": "re: {user}"}]},
    ]
}
ENDS = {
    "interrupt": ["Stopped.", "re: more"],
    "queue": ["worked", "re: more"],
    "steer": ["worked", "Passed on to the work in progress."],
}
STORED = "SELECT COUNT(*) FROM turn"
"""Turns that the agent knows: a message has its mode for good once it is one."""


async def _say_more(telegram: FakeTelegram, model: FakeModel) -> None:
    """Say something more while the model is asked about the work."""
    await telegram.say(1, "work")
    await model.until(lambda: len(model.requests) == 1)
    await telegram.say(1, "more")


def _was_told(model: FakeModel, mode: str) -> bool:
    """Whether the work was told what was said meanwhile, where it is to be, and nowhere else."""
    results = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
    return any("The user says while you work:\nmore" in text for text in results) == (
        mode == "steer"
    )


@pytest.mark.parametrize("mode", ENDS)
async def test_a_message_does_what_is_configured_for_its_platform(
    tmp_path: Path, mode: str
) -> None:
    other = "queue" if mode == "interrupt" else "interrupt"
    yaml = f"gateway: {{busy_mode: {other}, busy_modes: {{telegram: {mode}}}}}"
    async with fake_telegram() as telegram, fake_model(SCRIPT) as model:
        async with again(tmp_path, telegram, model, yaml):
            await _say_more(telegram, model)
            await telegram.until(lambda: telegram.texts(1) == ENDS[mode])
        assert _was_told(model, mode)


WAITING = [("/queue more", "Queued."), ("/steer more", "Noted.")]


@pytest.mark.parametrize(("said", "remark"), WAITING)
async def test_a_message_that_waits_is_acknowledged(tmp_path: Path, said: str, remark: str) -> None:
    slow = {"rules": [{"user": "work", "steps": [{"text": "worked", "latency_s": 20.0}]}]}
    async with (
        fake_telegram() as telegram,
        fake_model(slow) as model,
        again(tmp_path, telegram, model) as running,
    ):
        await telegram.say(1, "work")
        await model.until(lambda: len(model.requests) == 1)
        await telegram.say(1, said)
        await telegram.until(lambda: telegram.texts(1)[-1].startswith(remark))
        async with client(running) as talking:
            talking.dialogue.say("work")
            await model.until(lambda: len(model.requests) == 2)
            message_id = talking.dialogue.say(said)
            await talking.until(lambda heard: heard.turn(message_id) != "")
            first, second = [each.accepted.remark for each in talking.of("accepted")]
            assert first == ""
            assert second.startswith(remark)


async def test_a_chat_chooses_for_itself_and_a_message_for_its_own(tmp_path: Path) -> None:
    async with bot(tmp_path, SCRIPT) as (telegram, running):
        await telegram.say(1, "/busy queue")
        await telegram.until(lambda: "waits until" in "".join(telegram.texts(1)))
        await telegram.say(1, "work")
        await running.until_rows("agent", "SELECT state FROM turn", [("RUNNING",)])
        await telegram.say(1, "more")
        await telegram.until(lambda: telegram.texts(1)[1:] == ENDS["queue"])
        await telegram.say(1, "/busy default")
        await telegram.until(lambda: "stops the work" in telegram.texts(1)[-1])
        await telegram.say(1, "/queue more")
        await telegram.until(lambda: telegram.texts(1)[-1] == "re: more")
        assert await running.rows("gateway", "SELECT busy_mode FROM chat_session") == [(None,)]


async def test_in_a_terminal_the_choice_outlives_the_session_and_the_connection(
    tmp_path: Path,
) -> None:
    async with fake_model(SCRIPT) as model, hermes(tmp_path, model.url) as running:
        async with client(running) as talking:
            assert "`interrupt`" in (await talking.command("/busy")).text
            assert (await talking.command("/busy often")).is_error
            assert (await talking.command("/busy queue now")).is_error
            await talking.command("/busy queue")
            new = (await talking.command("/new")).session_id
        async with client(running, opened_again(new)) as back:
            shown = await back.command("/busy show")
            assert "`queue`" in shown.text
            assert "chosen" in shown.text
            work = back.dialogue.say("work")
            await model.until(lambda: len(model.requests) == 1)
            assert await back.ask("/queue that") == "re: that"
            ended = back.outcome(work)
            assert ended is not None
            assert ended.completed.answer == "worked"
