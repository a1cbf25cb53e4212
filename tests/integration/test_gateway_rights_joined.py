"""A second person's words bring along what is denied to them, by whatever way they come."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.telegram import FakeTelegram
from tests.integration.test_gateway_busy import LOOK
from tests.integration.test_gateway_telegram import OTTERS, bot

FIRST, SECOND = 7, 8
NO_MEMORY = f"platforms: {{telegram: {{extra: {{commands: {{deny: {{{SECOND}: [memory]}}}}}}}}}}"
DENIED = "may not say /memory show here"
KEEP = {"target": "memory", "action": "add", "content": "Likes tea"}
REMEMBER: dict[str, Any] = {"tool_calls": [{"name": "memory", "arguments": KEEP}]}
SCRIPT: dict[str, Any] = {
    "rules": [
        {"user": "draw", "steps": [OTTERS, REMEMBER, {"text": "drawn: {tool_result}"}]},
        {"user": "work", "steps": [LOOK, REMEMBER, {"text": "worked: {tool_result}"}]},
        {"steps": [REMEMBER, {"text": "then: {tool_result}"}]},
    ]
}


async def _ended(telegram: FakeTelegram, chat: int, how: str) -> bool:
    """Whether something was denied to the turn that says so of itself at its end."""
    await telegram.until(lambda: any(text.startswith(how) for text in telegram.texts(chat)))
    (text,) = (text for text in telegram.texts(chat) if text.startswith(how))
    return DENIED in text


@pytest.mark.parametrize("presses", [FIRST, SECOND])
async def test_who_presses_a_button_of_a_question(tmp_path: Path, presses: int) -> None:
    async with bot(tmp_path, SCRIPT, NO_MEMORY) as (telegram, _):
        await telegram.say(1, "draw an otter", user_id=FIRST)
        await telegram.until(lambda: len(telegram.texts(1)) == 2)
        question = list(telegram.chats[1].values())[1]
        await telegram.press(1, question.id, question.buttons[1], user_id=presses)
        assert await _ended(telegram, 1, "drawn") == (presses == SECOND)


async def test_who_joins_the_work_or_waits_for_its_end(tmp_path: Path) -> None:
    async with bot(tmp_path, SCRIPT, NO_MEMORY) as (telegram, running):
        for chat, (user, command) in enumerate(
            ((SECOND, "steer"), (FIRST, "steer"), (SECOND, "queue")), start=1
        ):
            await telegram.say(chat, "work", user_id=FIRST)
            query = "SELECT count(*) FROM turn WHERE state = 'RUNNING'"
            await running.until_rows("agent", query, [(1,)])
            await telegram.say(chat, f"/{command} keep it", user_id=user)
            is_denied = await _ended(telegram, chat, "worked")
            assert is_denied == ((user, command) == (SECOND, "steer"))
        assert await _ended(telegram, 3, "then")
    kept = await asyncio.to_thread((tmp_path / "memories" / "MEMORY.md").read_text)
    assert kept.count("Likes tea") == 1
