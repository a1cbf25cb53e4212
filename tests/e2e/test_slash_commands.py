"""Slash commands as people say them: at a terminal with Tab, and on Telegram, over processes."""

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import Deployment, beside, four_processes, one_process, running
from tests.e2e.model import ModelProcess
from tests.e2e.terminal import CTRL_D, terminal
from tests.fakes.model import answers, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.security.scale import scale_name
from tests.skills import document, put_skill

PROMPT = r"^>$"
TAB = "\t"
SKILL = document("paper-search", "Finds papers.", "Search the archive first.")
ECHO = answers({"text": "re: {user}"})
KILLS = 12 if scale_name() == "full" else 2


def test_a_terminal_completes_commands_and_skills(model: ModelProcess, tmp_path: Path) -> None:
    only_ours = {"HERMES_SKILLS_BUNDLED": "false"}
    deployment = one_process(tmp_path, model.url, sandboxed("bubblewrap"), **only_ours)
    put_skill(deployment.client.path / "skills", "paper-search", SKILL)
    with running(deployment), terminal(deployment.client, "chat") as chat:
        chat.wait_for(PROMPT)
        chat.type("/help")
        chat.wait_for("/paper_search")
        chat.press("/cr" + TAB)
        chat.wait_for("^> /cron$")
        chat.press(" ad" + TAB)
        chat.wait_for("^> /cron add$")
        chat.type(" in 2 seconds say that it is time")
        chat.wait_for(r"^Job job_[0-9a-f]{12}: in 2 seconds, next ")
        chat.wait_for("^You said: say that it is time")
        chat.press("/pap" + TAB)
        chat.wait_for("^> /paper_search$")
        chat.type(" on otters")
        chat.wait_for("^You said: ", count=2)
        chat.type("/usgae")
        chat.wait_for(r"Did you mean /usage\?")
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


def deployed(make: Any, folder: Path, telegram: FakeTelegram, model_url: str) -> Deployment:
    return make(
        folder,
        model_url,
        sandboxed("bubblewrap"),
        TELEGRAM_BOT_TOKEN=TOKEN,
        TELEGRAM_BASE_URL=telegram.url,
        TELEGRAM_ALLOWED_USERS="7",
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_gateway_finds_the_scheduler_elsewhere_and_works_without(tmp_path: Path) -> None:
    async with fake_telegram() as telegram, fake_model(ECHO) as model:
        made = await asyncio.to_thread(deployed, four_processes, tmp_path, telegram, model.url)
        async with beside(running(made)):
            await telegram.until(lambda: "cron" in telegram.menus.names())
            await telegram.say(7, "/cron add in 2 hours tea")
            await telegram.until(lambda: any("Job job_" in each for each in telegram.texts(7)))
            await asyncio.to_thread(made.servers["scheduler"].kill)
            await telegram.say(7, "/cron")
            away = "The scheduler does not answer"
            await telegram.until(lambda: any(away in each for each in telegram.texts(7)))
            await telegram.say(7, "hello")
            await telegram.until(lambda: "re: hello" in telegram.texts(7))
            await asyncio.to_thread(made.start)
            while away in (answer := telegram.texts(7)[-1]) or answer == "re: hello":
                # It is back, and the gateway may be about to try again.
                before = len(telegram.texts(7))
                await telegram.say(7, "/cron list")
                await telegram.until(lambda before=before: len(telegram.texts(7)) > before)
            assert "tea: in 2 hours" in answer


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_job_is_added_once_however_often_hermes_is_killed(tmp_path: Path) -> None:
    dice = random.Random(5)
    async with fake_telegram() as telegram, fake_model(ECHO) as model:
        telegram.faults.redeliver = 0.5
        made = await asyncio.to_thread(deployed, one_process, tmp_path, telegram, model.url)
        async with beside(running(made)):
            for number in range(KILLS):
                await telegram.say(7, f"/cron add in {number + 2} hours tea")
                await asyncio.sleep(dice.random() * 0.1)
                await asyncio.to_thread(made.kill)
                await asyncio.to_thread(made.start)
            await telegram.until(lambda: len(told(telegram)) == KILLS)
    schedules = await asyncio.to_thread(jobs, tmp_path)
    assert schedules == [f"in {number + 2} hours" for number in range(KILLS)]


def told(telegram: FakeTelegram) -> set[str]:
    """The ids of the jobs that people were told of."""
    texts = (each for each in telegram.texts(7) if "Job job_" in each)
    return {text.partition("Job ")[2].partition(":")[0] for text in texts}


def jobs(folder: Path) -> list[str]:
    """The schedules of all jobs that there are."""
    (path,) = folder.rglob("scheduler.db")
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT schedule_text FROM job ORDER BY schedule_text").fetchall()
    return [text for (text,) in rows]
