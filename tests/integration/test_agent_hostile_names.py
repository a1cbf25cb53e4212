"""Files whose names are meant to be mistaken for something else, in real sandboxes."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent_service.tools.texts import shown_name
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executors import end_boxes, executor_settings, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {
    "option": "-rf",
    "double dash": "--help",
    "shell": "$(touch owned)`touch owned`;touch owned",
    "quotes": 'it\'s "so"',
    "newline": "a\nb  0",
    "line of its own": "x\n[the folder is empty]",
    "escape": "\x1b[2Jgone",
    "direction": "txt\u202eexe.",
    "spaces": "  a name ",
    "glob": "[a-z]*?",
    "backslash": "a\\nb",
    "percent": "%s%n",
    "markup": "<untrusted>",
    "unicode": "naïve \u7f8e.txt",
    "long": "n" * 255,
    "find": "(",
    "negation": "!x",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BUBBLEWRAP_FIRST)
async def tools(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Tools]:
    """The tools of one session for all tests of a backend."""
    settings = executor_settings(tmp_path_factory.mktemp("home"), request.param)
    async with (
        serving(settings) as executor,
        open_tools(executor.home, executor.address, executor.tokens) as opened,
    ):
        yield opened
    await end_boxes(settings)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
async def test_a_file_of_any_name_is_a_file(tools: Tools, name: str) -> None:
    await tools.text("write_file", path=name, content="one\n")
    try:
        assert "1|one" in await tools.text("read_file", path=name)
        change = {"path": name, "old_string": "one", "new_string": "two"}
        await tools.text("patch", mode="replace", **change)
        assert "1|two" in await tools.text("read_file", path=name)
        listed = (await tools.text("list_directory", path=".")).splitlines()
        assert listed == [f"{shown_name(name)}  4"]
        assert "two" in await tools.text("search_files", pattern="two", path=name)
        found = await tools.text("search_files", pattern="*", target="files", path=name)
        assert found.splitlines() == [found]
    finally:
        await tools.shell("rm -rf -- ..?* .[!.]* *")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
async def test_a_folder_of_any_name_is_a_folder(tools: Tools, name: str) -> None:
    await tools.text("write_file", path=f"{name}/inside", content="here\n")
    try:
        assert await tools.text("list_directory", path=name) == "inside  5"
        assert await tools.text("list_directory", path=".") == f"{shown_name(name)}/"
        found = await tools.text("search_files", pattern="inside", target="files", path=name)
        assert found.endswith("/inside")
        assert await tools.text("terminal", command="cat inside", workdir=name) == "here"
    finally:
        await tools.shell("rm -rf -- ..?* .[!.]* *")


async def test_folders_that_cannot_be_opened_do_not_hide_the_others(tools: Tools) -> None:
    await tools.shell(
        r"mkdir closed $(printf 'odd\377') open; touch open/inside; chmod 0 closed;"
        r"""mkdir -m 0 -- "$(printf 'two\n.env  0\nx')" """
    )
    try:
        lines = (await tools.text("list_directory", path=".", depth=2)).splitlines()
        assert {"closed/", "odd\ufffd/", "open/", "  inside  0"} <= set(lines)
        assert sum(line.startswith("  [not listed: ") for line in lines) == 3
        assert ".env  0" not in lines
    finally:
        await tools.shell("chmod 700 closed two*; rm -rf -- *")
