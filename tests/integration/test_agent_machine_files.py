"""File tools on a machine that is no sandbox: they see where its links lead before they write."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.config.settings import Settings
from tests.integration.agent_tool_parts import open_tools
from tests.support.executors import end_boxes, executor_settings, serving
from tests.support.ssh_server import ssh_server

LINKS = "mkdir -p real/inner && ln -s real linked && ln -s /dev/sdz9 disk && ln -s ../.. up"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Settings]:
    """The settings of an executor that uses a machine of its own."""
    with ssh_server() as server:
        yield executor_settings(tmp_path, "ssh", **server.environ)


async def test_links_of_the_machine_are_followed_before_a_path_is_judged(machine: Settings) -> None:
    async with (
        serving(machine) as executor,
        open_tools(executor.home, executor.address, executor.tokens) as tools,
    ):
        await tools.shell(LINKS)
        refused = await tools.refusal("write_file", path="disk", content="x")
        assert "/dev/sdz9 was not touched: this call writes to a raw block device" in refused
        leaving = await tools.refusal("write_file", path="up/x", content="x")
        assert "leads out of the workspace" in leaving
        await tools.text("write_file", path="linked/inner/../a.txt", content="otters\n")
        assert "1|otters" in await tools.text("read_file", path="real/a.txt")
    await end_boxes(machine)
