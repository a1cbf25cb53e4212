"""What a person may not say, is not done for them either: by their jobs, or by what they answer."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model import fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import WITH_JOBS, hermes
from tests.integration.test_gateway_rights import ADMIN, FAMILY, OTHER, asked
from tests.integration.test_gateway_telegram import OTTERS, bot

MAY_HAVE_JOBS = """
platforms:
  telegram:
    extra:
      commands:
        allow: {8: [cron]}
        deny: {8: [memory]}
"""
DENIED_TO = """
    SELECT json_extract(spec, '$.prompt'), json_extract(spec, '$.denied_commands') FROM job
"""
DENIED = "may not use /memory show here"
KEEP = {"target": "memory", "action": "add", "content": "Likes tea"}
REMEMBER = {
    "steps": [{"tool_calls": [{"name": "memory", "arguments": KEEP}]}, {"text": "{tool_result}"}]
}


def _cron(**arguments: Any) -> Mapping[str, Any]:
    call = {"name": "cronjob", "arguments": arguments}
    return {"steps": [{"tool_calls": [call]}, {"text": "{tool_result}"}]}


async def _told(telegram: FakeTelegram, user: int, text: str) -> None:
    await telegram.until(lambda: any(text in each for each in telegram.texts(user)))


async def test_the_jobs_that_somebody_makes_or_changes_do_nothing_that_they_may_not(
    tmp_path: Path,
) -> None:
    script = {
        "rules": [
            {
                "user": "remind me",
                **_cron(action="create", schedule="in 1 second", prompt="by tool"),
            },
            {"user": "change it", **_cron(action="update", job_id="tea", prompt="keep it all")},
            REMEMBER,
        ]
    }
    given = {"TELEGRAM_BOT_TOKEN": TOKEN, **FAMILY}
    async with (
        fake_telegram() as telegram,
        fake_model(script) as model,
        hermes(
            tmp_path,
            model.url,
            MAY_HAVE_JOBS,
            given | {"TELEGRAM_BASE_URL": telegram.url},
            WITH_JOBS,
        ) as running,
    ):
        assert "Job job_" in await asked(telegram, OTHER, "/cron add in 1 second keep it")
        await _told(telegram, OTHER, DENIED)
        telegram.chats[OTHER].clear()
        await telegram.say(OTHER, "remind me", user_id=OTHER)
        await _told(telegram, OTHER, DENIED)
        await telegram.say(ADMIN, "/cron add in 3 hours tea", user_id=ADMIN)
        await _told(telegram, ADMIN, "Job ")
        await telegram.say(OTHER, "change it", user_id=OTHER)
        await _told(telegram, OTHER, "is changed")
        rows = await running.rows("scheduler", DENIED_TO)
        denied = dict(rows)
        assert all("memory show" in (denied[prompt] or "") for prompt in denied), rows
        assert set(denied) == {"keep it", "by tool", "keep it all"}
        await telegram.say(ADMIN, "/cron run keep it all", user_id=ADMIN)
        await _told(telegram, ADMIN, DENIED)
        await telegram.say(ADMIN, "/cron add in 1 second keep it", user_id=ADMIN)
        await _told(telegram, ADMIN, "Remembered")
    kept = await asyncio.to_thread((tmp_path / "memories" / "MEMORY.md").read_text)
    assert kept.count("Likes tea") == 1


@pytest.mark.parametrize("presses", [ADMIN, OTHER])
async def test_who_presses_a_button_brings_along_what_is_denied_to_them(
    tmp_path: Path, presses: int
) -> None:
    call = {"tool_calls": [{"name": "memory", "arguments": KEEP}]}
    script = {"rules": [{"steps": [OTTERS, call, {"text": "drawn: {tool_result}"}]}]}
    async with bot(tmp_path, script, MAY_HAVE_JOBS) as (telegram, _):
        await telegram.say(1, "draw an otter", user_id=ADMIN)
        await telegram.until(lambda: len(telegram.texts(1)) == 2)
        question = list(telegram.chats[1].values())[1]
        await telegram.press(1, question.id, question.buttons[1], user_id=presses)
        await telegram.until(lambda: any("drawn: " in text for text in telegram.texts(1)))
        (text,) = (text for text in telegram.texts(1) if "drawn: " in text)
        assert (DENIED in text) == (presses == OTHER)
