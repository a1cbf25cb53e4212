"""Results that are too long for the conversation, with real sandboxes to keep them in."""

from collections.abc import AsyncIterator
from typing import Any, NoReturn

import pytest
import pytest_asyncio

from agent_service.records.commands import ToolReturned
from agent_service.records.sandbox import Files, SandboxUnavailable
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.output import (
    FOLDER,
    LATE_CHARS,
    PREVIEW_CHARS,
    RESULT_CHARS,
    TURN_CHARS,
    ResultRoom,
)
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.support.executors import end_boxes, executor_settings, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEN_MB = 10_000_000


class PrintArguments(ToolArguments):
    """Prints a lot."""

    count: int
    beside: int = 0


class Print(UsualTool[PrintArguments]):
    """A tool that says as much as it is asked to."""

    name = "print"
    toolset = "file"
    arguments = PrintArguments
    usual_effect = Effect.PURE
    """Nothing happens."""

    async def run(self, arguments: PrintArguments, context: ToolContext) -> ToolResult:
        text = "begin" + "x" * (arguments.count - 8) + "end"
        return ToolResult(text, beside="n" * arguments.beside)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tools]:
    """The tools of one session, with one more."""
    settings = executor_settings(tmp_path_factory.mktemp("home"), "bubblewrap")
    async with (
        serving(settings) as executor,
        open_tools(executor.home, executor.address, executor.tokens, more=[Print()]) as opened,
    ):
        yield opened
    await end_boxes(settings)


def _path(returned: ToolReturned) -> str:
    return f"{FOLDER}/{returned.call.key.replace(':', '-')}.txt"


async def test_ten_megabytes_are_a_file_and_a_preview(tools: Tools) -> None:
    returned = await tools("print", count=TEN_MB)
    assert not returned.is_error
    assert len(returned.text) < PREVIEW_CHARS + 300
    assert returned.text.startswith("beginxxx")
    assert returned.text.endswith("xxxend")
    assert f"9,998,500 of 10,000,000 characters left out; all of it is in {_path(returned)}" in (
        returned.text
    )
    assert await tools.shell(f"wc -c <{_path(returned)}") == f"{TEN_MB}"
    assert await tools.shell(f"head -c 5 {_path(returned)}; tail -c 3 {_path(returned)}") == (
        "beginend"
    )


async def test_a_turn_has_room_for_so_much(tools: Tools) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("print", {"count": 90_000})] * 3
    texts = [returned.text for returned in await tools.all(*calls, ("print", {"count": 1000}))]
    assert sorted(map(len, texts))[2:] == [90_000, 90_000]
    assert sum(map(len, texts)) < TURN_CHARS
    assert sum("left out" in text for text in texts) == 1


async def test_a_file_is_read_in_parts_and_never_goes_to_another_one(tools: Tools) -> None:
    await tools.shell("yes $(printf 'y%.0s' $(seq 99)) | head -n 60000 >many")
    text = await tools.text("read_file", path="many", limit=2000)
    assert "left out" not in text
    assert len(text) <= RESULT_CHARS
    assert "more lines; continue with offset" in text


async def test_what_is_told_beside_a_result_is_held_to_its_room_too(tools: Tools) -> None:
    few = await tools("print", count=90_000, beside=20_000)
    assert len(few.text) <= RESULT_CHARS
    assert few.text.endswith("n" * 20_000), "the notes are whole"
    assert f"of 90,000 characters left out; all of it is in {_path(few)}" in few.text
    many = await tools("print", count=40_000, beside=60_000)
    assert many.text.startswith("begin" + "x" * 39_992 + "end\nnnn")
    kept = _path(many).replace(".txt", "-beside.txt")
    assert f"of 60,000 characters left out; all of it is in {kept}" in many.text
    assert await tools.shell(f"wc -c <{kept}") == "60000"
    whole = await tools.text("print", count=79_999, beside=20_000)
    assert len(whole) == RESULT_CHARS


class _NoFiles:
    async def _fail(self, *_arguments: object) -> NoReturn:
        raise SandboxUnavailable("No sandbox can be had.")

    stat = list = read = write = _fail


@pytest.mark.parametrize(
    ("files", "told"),
    [(None, "the rest is not kept"), (_NoFiles(), "not be kept: No sandbox can be had.")],
    ids=["no tools to read it with", "no sandbox"],
)
async def test_without_a_file_as_much_is_shown_as_fits(files: Files | None, told: str) -> None:
    room = ResultRoom()
    text = await room.fitted("x" * TEN_MB, "key", files)
    assert told in text
    assert RESULT_CHARS <= len(text) < RESULT_CHARS + 300
    room.used_chars = TURN_CHARS
    assert len(await room.fitted("x" * TEN_MB, "key", files)) < PREVIEW_CHARS + 300
    assert await room.fitted("x" * LATE_CHARS, "key", files) == "x" * LATE_CHARS
