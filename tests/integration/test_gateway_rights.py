"""Who may say what on Telegram, what it shows to choose from, and skills as commands."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway_service.commands.registry import ELSEWHERE, ONLY_ADMINS
from gateway_service.turns.prompt_replies import NOT_YOURS
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import WITH_JOBS, hermes
from tests.integration.test_gateway_conversation import ECHO
from tests.integration.test_gateway_telegram import ASK_FIRST, RUN
from tests.support.skills import document, put_skill

GROUP: Mapping[str, Any] = {"chat": {"id": -5, "type": "group", "title": "us"}}
ADMIN, OTHER = 7, 8
FAMILY = {
    "TELEGRAM_ALLOWED_USERS": "7, 8",
    "TELEGRAM_ADMINS": "7",
    "HERMES_SKILLS_BUNDLED": "false",
}


@asynccontextmanager
async def bot(
    folder: Path,
    telegram: FakeTelegram,
    script: Mapping[str, Any] = ECHO,
    yaml: str = "",
    services: tuple[str, ...] = ("agent", "gateway"),
    **environ: str,
) -> AsyncGenerator[FakeModel]:
    """One run of a bot, whose family it is unless said otherwise."""
    given = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_BASE_URL": telegram.url, **FAMILY, **environ}
    async with fake_model(script) as model, hermes(folder, model.url, yaml, given, services):
        yield model


async def asked(telegram: FakeTelegram, user: int, text: str, **message: Any) -> str:
    """What is answered to somebody in the chat of two, or in another one."""
    chat = message.get("chat", {}).get("id", user)
    before = len(telegram.texts(chat))
    await telegram.say(chat, text, user_id=user, **message)
    await telegram.until(
        lambda: len(telegram.texts(chat)) > before and "…" not in telegram.texts(chat)
    )
    return telegram.texts(chat)[-1]


async def test_what_changes_the_deployment_is_for_admins_and_a_refusal_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="gateway_service")
    async with fake_telegram() as telegram, bot(tmp_path, telegram, services=WITH_JOBS):
        for command in ("/cron add in 2 hours tea", "/model other/model", "/curator", "/sessions"):
            assert await asked(telegram, OTHER, command) == ONLY_ADMINS
        assert "telegram:8 was refused the command cron add" in caplog.messages
        assert "configured model" in await asked(telegram, OTHER, "/model")
        assert "not an admin" in await asked(telegram, OTHER, "/whoami")
        told = await asked(telegram, OTHER, "/help")
        assert "/cron" not in told
        assert "/model [show|list]" in told
        assert "There is no command" in await asked(telegram, OTHER, "/help cron")
        assert (await asked(telegram, ADMIN, "/cron add in 2 hours tea")).startswith("Job job_")
        assert "/cron" in await asked(telegram, ADMIN, "/help")
        assert "telegram:7 uses the command cron add" in caplog.messages
        audits = {vars(each).get("audit") for each in caplog.records}
        assert {"command_denied", "command_used"} <= audits
        assert not any("tea" in each for each in caplog.messages)


async def test_who_may_not_schedule_cannot_have_it_done_either(tmp_path: Path) -> None:
    """The agent has the tool, but not for them."""
    make = {"action": "create", "schedule": "in 2 hours", "prompt": "tea", "name": "tea"}
    script = {
        "rules": [
            {
                "user": "remind me",
                "steps": [
                    {"tool_calls": [{"name": "cronjob", "arguments": make}]},
                    {"text": "{tool_result}"},
                ],
            }
        ]
    }
    async with fake_telegram() as telegram, bot(tmp_path, telegram, script, services=WITH_JOBS):
        await telegram.say(OTHER, "remind me of tea", user_id=OTHER)
        await telegram.until(
            lambda: any("may not use /cron add here" in t for t in telegram.texts(OTHER))
        )
        assert "There are no jobs yet" in await asked(telegram, ADMIN, "/cron list")
        await telegram.say(ADMIN, "remind me of tea", user_id=ADMIN)
        await telegram.until(lambda: any("“tea” (job_" in t for t in telegram.texts(ADMIN)))


async def test_what_is_private_is_not_said_in_groups(tmp_path: Path) -> None:
    async with fake_telegram() as telegram, bot(tmp_path, telegram, services=WITH_JOBS):
        for command in ("/memory", "/sessions", "/cron", "/curator"):
            assert await asked(telegram, ADMIN, command, **GROUP) == ELSEWHERE
        assert "This chat" in await asked(telegram, ADMIN, "/help", **GROUP)
        assert "/cron" not in telegram.texts(-5)[-1]
        assert "other/model answers" in await asked(telegram, ADMIN, "/model other/model", **GROUP)
        assert await asked(telegram, OTHER, "/model other/model", **GROUP) == ONLY_ADMINS


async def test_the_menu_is_set_once(tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    await asyncio.to_thread(put_skill, skills, "research/paper-search", document("paper-search"))
    await asyncio.to_thread(put_skill, skills, "model")
    await asyncio.to_thread(put_skill, skills, "a-very-long-name-that-no-menu-has-place-for")
    async with fake_telegram() as telegram:
        async with bot(tmp_path, telegram):
            await telegram.until(lambda: telegram.calls["setMyCommands"] == 1)
            shown = telegram.menus.shown
            assert {"new", "help", "memory", "cron"} < set(shown)
            assert shown[-3:] == ["a_very_long_name_that_no_menu_ha", "paper_search", "skill_model"]
            assert "quit" not in shown
        async with bot(tmp_path, telegram):
            await telegram.until(lambda: telegram.calls["getMyCommands"] >= 2)
            assert "This chat" in await asked(telegram, ADMIN, "/help")
        assert telegram.calls["setMyCommands"] == 1, "a start alone sets nothing"


async def test_a_skill_is_a_command_that_is_a_turn(tmp_path: Path) -> None:
    text = document("paper-search", "Finds papers.", "Search the archive first.")
    await asyncio.to_thread(put_skill, tmp_path / "skills", "research/paper-search", text)
    async with fake_telegram() as telegram, bot(tmp_path, telegram) as model:
        await asked(telegram, ADMIN, "/paper_search@hermes_bot find papers\non otters")
        [body] = model.bodies
        said = body["messages"][-1]["content"]
        assert said.startswith("find papers\non otters\n\n")
        assert "Search the archive first." in said
        usage = await asyncio.to_thread((tmp_path / "skills" / ".usage.json").read_bytes)
        assert json.loads(usage)["paper-search"]["use_count"] == 1
        assert "Did you mean /paper_search?" in await asked(telegram, ADMIN, "/papersearch x")


async def test_who_may_not_approve_does_not_by_a_button_or_a_word_either(tmp_path: Path) -> None:
    script = {"rules": [{"steps": [RUN, {"text": "done"}]}]}
    denied = "platforms: {telegram: {extra: {commands: {deny: {8: [approve]}}}}}"
    async with (
        fake_telegram() as telegram,
        bot(tmp_path, telegram, script, f"{ASK_FIRST}\n{denied}"),
    ):
        await telegram.say(OTHER, "clean up", user_id=OTHER)
        await telegram.until(lambda: any(shown.buttons for shown in telegram.chats[OTHER].values()))
        [question] = [shown for shown in telegram.chats[OTHER].values() if shown.buttons]
        once, *_, deny = question.buttons
        await telegram.press(OTHER, question.id, once, user_id=OTHER)
        await telegram.until(lambda: NOT_YOURS in telegram.acknowledged.values())
        answered = {"message_id": question.id, "date": 1, "chat": {"id": OTHER, "type": "private"}}
        await telegram.say(OTHER, "yes", user_id=OTHER, reply_to_message=answered)
        await telegram.until(lambda: NOT_YOURS in telegram.texts(OTHER))
        await telegram.press(OTHER, question.id, deny, user_id=OTHER)
        await telegram.until(lambda: "Done." in telegram.acknowledged.values())
        assert sorted(telegram.acknowledged.values()) == sorted(["Done.", NOT_YOURS])
