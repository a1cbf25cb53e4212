"""The dialogues of the documentation are what `hermes chat` shows, and each tool has one."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.backends import need_backend
from tests.e2e.dialogue_stage import documented, performances, without_times
from tests.e2e.dialogues import DIALOGUES
from tests.support.sound import need_sound
from tests.unit.docs_reference import GENERATED

pytestmark = pytest.mark.timeout(180)


async def test_the_dialogues_of_the_page_are_what_a_chat_shows(tmp_path: Path) -> None:
    await asyncio.to_thread(need_backend, "bubblewrap", tmp_path / "probe")
    await need_sound()
    shown = await performances(tmp_path)
    on_page = await asyncio.to_thread(documented)
    found = {tool: without_times(text) for tool, text in on_page.items()}
    assert found == {tool: without_times(text) for tool, text in shown.items()}, (
        "run python -m tests.e2e.dialogue_stage"
    )
    assert [*shown] == [each.tool for each in DIALOGUES]
    assert all(text.count("\n") <= 12 for text in shown.values()), "a dialogue is short"


def test_each_tool_has_a_dialogue() -> None:
    _, tools = GENERATED["docs/tools.md"]
    assert sorted([*tools, "rl_list_environments"]) == sorted(each.tool for each in DIALOGUES)
