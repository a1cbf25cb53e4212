"""Telegram through the gateway with the real agent, against a Bot API server on a socket."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model import FakeModel, answers, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes, hermes

ASK_FIRST = "approvals: {mode: manual}"
QUESTIONS = "SELECT state FROM outbox WHERE delivery_id LIKE 'apr_%'"
RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}


@asynccontextmanager
async def bot(
    folder: Path, script: Mapping[str, Any], yaml: str = ""
) -> AsyncGenerator[tuple[FakeTelegram, Hermes]]:
    """A bot that people 7 and 8 may talk to, whose model is scripted."""
    async with (
        fake_telegram() as telegram,
        fake_model(script) as model,
        again(folder, telegram, model, yaml) as running,
    ):
        yield telegram, running


@asynccontextmanager
async def again(
    folder: Path, telegram: FakeTelegram, model: FakeModel, yaml: str = ""
) -> AsyncGenerator[Hermes]:
    """One run of a bot whose home and Telegram go on."""
    environ = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.url,
        "TELEGRAM_ALLOWED_USERS": "7, 8",
    }
    async with hermes(folder, model.url, yaml, environ) as running:
        yield running


async def test_a_message_is_answered_in_its_place(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "**Hello** & welcome"})) as (telegram, running):
        await telegram.say(1, "hi")
        await telegram.until(lambda: telegram.texts(1) == ["Hello & welcome"])
        [shown] = telegram.chats[1].values()
        assert shown.html == "<b>Hello</b> &amp; welcome"
        assert shown.versions[0] == "…"
        assert running.metric("hermes_platform_connected", platform="telegram") == 1
        await running.counted("hermes_deliveries_total", platform="telegram", outcome="sent")


async def test_strangers_are_not_answered_and_not_remembered(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "Hello!"})) as (telegram, running):
        await telegram.say(2, "let me in", user_id=666)
        await telegram.say(1, "hi")
        await telegram.until(lambda: telegram.texts(1) == ["Hello!"])
        assert not telegram.chats[2]
        assert not telegram.actions[2]
        states = "SELECT state FROM inbox ORDER BY sequence"
        await running.until_rows("gateway", states, [("IGNORED",), ("CLOSED",)])
        ignored = "SELECT payload FROM inbox WHERE state = 'IGNORED'"
        assert await running.rows("gateway", ignored) == [("{}",)]


async def test_what_is_received_twice_is_answered_once(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "re: {user}"})) as (telegram, running):
        telegram.faults.redeliver = 1.0
        for number in range(2):
            await telegram.say(1, f"{number}")
            await telegram.until(lambda number=number: f"re: {number}" in telegram.texts(1))
        await running.counted("hermes_duplicates_suppressed_total")
        assert telegram.texts(1) == ["re: 0", "re: 1"]


async def test_an_answer_is_shown_while_it_is_written(tmp_path: Path) -> None:
    text = "one two three four five six"
    script = answers({"text": text, "chunk_chars": 4, "chunk_delay_s": 0.35})
    async with bot(tmp_path, script) as (telegram, _):
        await telegram.say(1, "count")
        await telegram.until(lambda: telegram.texts(1) == [text])
        [shown] = telegram.chats[1].values()
        assert len(shown.versions) >= 3
        assert all(text.startswith(version) for version in shown.versions[1:])
        assert telegram.actions[1] >= 1


async def test_an_answer_outlives_its_topic(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "Hello!"})) as (telegram, _):
        telegram.faults.planned["sendMessage"].append("no_thread")
        group = {"id": -5, "type": "supergroup", "title": "Friends", "is_forum": True}
        topic: dict[str, Any] = {"chat": group, "message_thread_id": 3, "is_topic_message": True}
        await telegram.say(-5, "@hermes_bot hi", **topic)
        await telegram.until(lambda: telegram.texts(-5) == ["Hello!"])
        [shown] = telegram.chats[-5].values()
        assert shown.thread_id == ""


async def test_a_long_answer_comes_in_parts(tmp_path: Path) -> None:
    code = "\n".join(f"line {number} of the program" for number in range(300))
    text = f"Here it is:\n```python\n{code}\n```\nThat was it."
    async with bot(tmp_path, answers({"text": text})) as (telegram, _):
        await telegram.say(1, "write a program")
        await telegram.until(lambda: any("That was it." in each for each in telegram.texts(1)))
        shown = list(telegram.chats[1].values())
        assert len(shown) == 2
        assert all(each.html.count('<code class="language-python">') == 1 for each in shown)
        lines = [line for each in shown for line in each.text.split("\n") if "line" in line]
        assert lines == code.split("\n")


async def test_commands_are_answered_while_a_turn_runs(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "too late", "latency_s": 30})) as (telegram, _):
        await telegram.say(1, "work")
        await telegram.until(lambda: telegram.texts(1) == ["…"])
        await telegram.say(1, "/status")
        await telegram.until(lambda: "Working on your message" in telegram.texts(1)[-1])
        await telegram.say(1, "/stop")
        await telegram.until(lambda: telegram.texts(1)[0] == "Stopped.")
        await telegram.until(lambda: telegram.texts(1)[-1] == "Stopping.")
        await telegram.say(1, "/nonsense")
        await telegram.until(lambda: "/help" in telegram.texts(1)[-1])
        assert len(telegram.texts(1)) == 4


async def test_a_button_decides_and_strangers_cannot_press_it(tmp_path: Path) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "It was not allowed."}]}]}
    async with bot(tmp_path, script, ASK_FIRST) as (telegram, running):
        await telegram.say(1, "clean up")
        await telegram.until(lambda: any("rm -r src" in text for text in telegram.texts(1)))
        question = list(telegram.chats[1].values())[1]
        assert [data.rpartition(":")[2] for data in question.buttons] == [
            *("once", "session", "always", "deny")
        ]
        await telegram.press(1, question.id, question.buttons[0], user_id=666)
        # A program can press what was asked in another chat.
        await telegram.say(8, "/status", user_id=8)
        await telegram.until(lambda: len(telegram.texts(8)) == 1)
        await telegram.press(8, next(iter(telegram.chats[8])), question.buttons[0], user_id=8)
        unknown = "This button is no longer valid."
        await telegram.until(lambda: list(telegram.acknowledged.values()) == [unknown])
        await telegram.press(1, question.id, question.buttons[-1], user_id=8)
        await telegram.until(lambda: telegram.texts(1)[0] == "It was not allowed.")
        await telegram.until(lambda: telegram.texts(1)[1].startswith("Denied by telegram:8"))
        assert question.buttons == []
        await telegram.until(lambda: list(telegram.acknowledged.values()) == [unknown, "Done."])
        decided = await running.rows("agent", "SELECT decision, decided_by FROM approval")
        assert [(word.lower(), who) for word, who in decided] == [("deny", "telegram:8")]


@pytest.mark.parametrize(("said", "shown"), [("Yes!", "Allowed once"), ("no", "Denied")])
async def test_a_reply_that_says_yes_or_no_decides(tmp_path: Path, said: str, shown: str) -> None:
    script = {
        "rules": [
            {"user": "clean", "steps": [RUN, {"text": "Done."}]},
            {"steps": [{"text": "Hello."}]},
        ]
    }
    async with bot(tmp_path, script, ASK_FIRST) as (telegram, running):
        await telegram.say(1, "clean up")
        await telegram.until(lambda: any("rm -r src" in text for text in telegram.texts(1)))
        question = list(telegram.chats[1].values())[1]
        await running.until_rows("gateway", QUESTIONS, [("SENT",)])
        reply = {"message_id": question.id, "date": 1, "chat": {"id": 1, "type": "private"}}
        reply = {**reply, "from": {"id": 4242, "is_bot": True, "first_name": "Hermes"}}
        await telegram.say(1, said, user_id=8, reply_to_message=reply)
        await telegram.until(lambda: telegram.texts(1)[0] == "Done.")
        await telegram.until(lambda: telegram.texts(1)[1].startswith(f"{shown} by telegram:8"))
        contrary = "no" if said == "Yes!" else "yes"
        await telegram.say(1, contrary, reply_to_message=reply)
        await telegram.until(lambda: len(telegram.texts(1)) == 3)
        assert "decided" in telegram.texts(1)[2]
        await telegram.say(1, "yes")
        await telegram.until(lambda: telegram.texts(1)[-1] == "Hello.")
        assert await running.rows("agent", "SELECT count(*) FROM approval") == [(1,)]


@pytest.mark.parametrize(("said", "shown"), [("Yes!", "Allowed once"), ("no", "Denied")])
async def test_a_plain_yes_or_no_decides_the_one_open_approval(
    tmp_path: Path, said: str, shown: str
) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "Done."}]}]}
    async with bot(tmp_path, script, ASK_FIRST) as (telegram, running):
        await telegram.say(1, "clean up")
        await running.until_rows("gateway", QUESTIONS, [("SENT",)])
        await telegram.say(1, said, user_id=8)
        await telegram.until(lambda: telegram.texts(1)[0] == "Done.")
        await telegram.until(lambda: telegram.texts(1)[1].startswith(f"{shown} by telegram:8"))
        assert len(telegram.texts(1)) == 2


async def test_a_plain_yes_asks_which_of_several_approvals_it_means(tmp_path: Path) -> None:
    calls = [
        {"name": "terminal", "arguments": {"command": f"rm -r {name}"}} for name in ("src", "bin")
    ]
    script = {"rules": [{"steps": [{"tool_calls": calls}, {"text": "Done."}]}]}
    async with bot(tmp_path, script, ASK_FIRST) as (telegram, running):
        await telegram.say(1, "clean up")
        await running.until_rows("gateway", QUESTIONS, [("SENT",), ("SENT",)])
        await telegram.say(1, "yes")
        await telegram.until(lambda: telegram.texts(1)[-1].startswith("2 questions are open."))
        await telegram.say(1, "/stop")
        # What is left open has no buttons any more.
        await telegram.until(lambda: "Expired, because the turn has ended" in telegram.texts(1)[2])
        await telegram.until(lambda: "Expired, because the turn has ended" in telegram.texts(1)[1])
        await telegram.until(lambda: telegram.texts(1)[-1] == "Stopping.")
        assert not any(shown.buttons for shown in telegram.chats[1].values())
        assert telegram.texts(1)[0] == "Stopped."


async def test_a_plain_yes_to_a_question_allows_no_call_beside_it(tmp_path: Path) -> None:
    calls = [*RUN["tool_calls"], *OTTERS["tool_calls"]]
    script = {"rules": [{"steps": [{"tool_calls": calls}, {"text": "So: {tool_result}"}]}]}
    async with bot(tmp_path, script, ASK_FIRST) as (telegram, running):
        await telegram.say(1, "clean up")
        either = f"{QUESTIONS} OR delivery_id LIKE 'clr_%'"
        await running.until_rows("gateway", either, [("SENT",), ("SENT",)])
        await telegram.say(1, "yes")
        await telegram.until(lambda: telegram.texts(1)[-1].startswith("2 questions are open."))
        shown = list(telegram.chats[1].values())
        (question,) = [each.id for each in shown if "Which otter?" in each.text]
        reply = {"message_id": question, "date": 1, "chat": {"id": 1, "type": "private"}}
        reply = {**reply, "from": {"id": 4242, "is_bot": True, "first_name": "Hermes"}}
        await telegram.say(1, "yes", reply_to_message=reply)
        await telegram.until(lambda: any(": yes" in text for text in telegram.texts(1)))
        await telegram.say(1, "no")
        await telegram.until(lambda: telegram.texts(1)[0] == "So: The user answered: yes")
        decided = await running.rows("agent", "SELECT tool, decision FROM approval ORDER BY tool")
        assert [word.lower() for _, word in decided] == ["answered", "deny"]


async def test_what_was_open_is_answered_after_a_restart(tmp_path: Path) -> None:
    slow = answers({"text": "Done: {user}", "latency_s": 1.0})
    async with fake_telegram() as telegram, fake_model(slow) as model:
        async with again(tmp_path, telegram, model):
            await telegram.say(1, "work")
            await telegram.until(lambda: telegram.texts(1) == ["…"])
            # anyio drops a connection that is cancelled in the moment in which it is made.
            await telegram.until(lambda: telegram.calls["sendChatAction"] == 1)
        await telegram.say(2, "more work")
        async with again(tmp_path, telegram, model):
            await telegram.until(lambda: telegram.texts(1) == ["Done: work"])
            await telegram.until(lambda: telegram.texts(2) == ["Done: more work"])
        assert telegram.calls["sendMessage"] == 2


async def test_a_token_that_is_not_valid_is_said_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "4242:not-the-token"
    async with fake_telegram() as telegram, fake_model(answers({"text": "never"})) as model:
        environ = {"TELEGRAM_BOT_TOKEN": secret, "TELEGRAM_BASE_URL": telegram.url}
        async with hermes(tmp_path, model.url, environ=environ):
            while True:
                if any("check TELEGRAM_BOT_TOKEN" in message for message in caplog.messages):
                    break
                await asyncio.sleep(0.01)
    assert "not-the-token" not in caplog.text


async def test_in_a_group_only_what_is_said_to_the_bot_is_answered(tmp_path: Path) -> None:
    group: dict[str, Any] = {"chat": {"id": -5, "type": "supergroup", "title": "Friends"}}
    async with bot(tmp_path, answers({"text": "re: {user}"})) as (telegram, running):
        await telegram.say(-5, "hello everybody", **group)
        await telegram.say(-5, "/stop@other_bot", **group)
        await telegram.say(-5, "@Hermes_Bot what is new?", user_id=8, **group)
        await telegram.until(lambda: telegram.texts(-5) == ["re: what is new?"])
        keys = await running.rows("gateway", "SELECT session_key FROM chat_session")
        assert keys == [("agent:main:telegram:group:-5:8",)]


async def test_what_is_no_text_is_said_to_be_unreadable(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "never"})) as (telegram, _):
        await telegram.say(1, "", location={"latitude": 1.0, "longitude": 2.0})
        unreadable = "I can read text, pictures, sound and documents, but not this."
        await telegram.until(lambda: telegram.texts(1) == [unreadable])
        assert telegram.calls["sendMessage"] == 1


async def test_a_text_that_was_cut_has_one_answer(tmp_path: Path) -> None:
    async with (
        fake_telegram() as telegram,
        fake_model(answers({"text": "Read."})) as model,
        again(tmp_path, telegram, model),
    ):
        await telegram.say(1, "A" * 4096)
        await telegram.say(1, "B" * 10)
        await telegram.until(lambda: telegram.texts(1) == ["Read."])
        [body] = model.bodies
        assert "AAAABBBB" in body["messages"][-1]["content"]


async def test_a_refused_turn_is_answered_with_the_reason(tmp_path: Path) -> None:
    async with bot(tmp_path, {"rules": [{"steps": [{"status": 401}]}]}) as (telegram, _):
        await telegram.say(1, "hi")
        await telegram.until(lambda: telegram.texts(1) not in ([], ["…"]))
        [text] = telegram.texts(1)
        assert "key" in text.lower() or "credential" in text.lower() or "401" in text


OTTERS = {
    "tool_calls": [
        {
            "name": "clarify",
            "arguments": {"question": "Which otter?", "choices": ["river otter", "sea otter"]},
        }
    ]
}


async def test_a_question_is_answered_by_a_button(tmp_path: Path) -> None:
    script = {"rules": [{"steps": [OTTERS, {"text": "So: {tool_result}"}]}]}
    async with bot(tmp_path, script) as (telegram, _):
        await telegram.say(1, "draw an otter")
        await telegram.until(lambda: any("Which otter?" in text for text in telegram.texts(1)))
        question = list(telegram.chats[1].values())[1]
        assert [data.rpartition(":")[2] for data in question.buttons] == ["1", "2"]
        await telegram.press(1, question.id, question.buttons[0], user_id=666)
        await telegram.press(1, question.id, question.buttons[1], user_id=8)
        await telegram.until(lambda: telegram.texts(1)[0] == "So: The user answered: sea otter")
        await telegram.until(lambda: "Answered by telegram:8: 2" in telegram.texts(1)[1])
        assert question.buttons == []


async def test_the_next_message_is_the_answer_and_the_one_after_it_is_not(tmp_path: Path) -> None:
    script = {
        "rules": [
            {"user": "draw", "steps": [OTTERS, {"text": "So: {tool_result}"}]},
            {"steps": [{"text": "Hello."}]},
        ]
    }
    async with fake_telegram() as telegram, fake_model(script) as model:
        async with again(tmp_path, telegram, model):
            await telegram.say(1, "draw an otter")
            await telegram.until(lambda: len(telegram.texts(1)) == 2)
        async with again(tmp_path, telegram, model):
            await telegram.say(1, "the small one")
            await telegram.until(
                lambda: telegram.texts(1)[0] == "So: The user answered: the small one"
            )
            await telegram.say(1, "hi")
            await telegram.until(lambda: telegram.texts(1)[-1] == "Hello.")
        assert len(telegram.texts(1)) == 3
        assert len(model.requests) == 3
