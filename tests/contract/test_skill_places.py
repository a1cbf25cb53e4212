"""Every backend gets the files of the skills that a session has loaded, where the model is told."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.executor_over import serving_over
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.support.boxes import backends, open_yard
from tests.support.users import users_folder

CONTENT = "---\nname: greeting\ndescription: Greets. Use it to greet.\n---\nRun scripts/hi.sh.\n"
PRINTED = "one\nread me\n555\n444\n444\n./SKILL.md\n./references/a.md\n./scripts/hi.sh"
OWN = {
    "bubblewrap": "/skills",
    "docker": "/skills",
    **dict.fromkeys(("kubernetes", "local", "singularity", "ssh"), "~/.skills"),
}
"""Where skills stand: a place of their own in boxes that have one, else the workspace."""


async def _make(tools: Tools, line: str) -> None:
    await tools.text("skill_manage", action="create", name="greeting", content=CONTENT)
    for path, text in (("scripts/hi.sh", line), ("references/a.md", "read me\n")):
        write = {"action": "write_file", "name": "greeting", "file_path": path}
        await tools.text("skill_manage", **write, file_content=text)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user can enter as whom `local` has commands run."""
    with users_folder() as made:
        yield made


@pytest.mark.timeout(120)
@pytest.mark.parametrize("backend", backends(sorted(OWN)))
async def test_the_files_of_a_skill_are_where_the_model_is_told(backend: str, folder: Path) -> None:
    place = f"{OWN[backend]}/greeting"
    async with (
        open_yard(backend, folder) as yard,
        serving_over(yard, folder / "home") as executor,
        open_tools(executor.home, executor.address, executor.tokens) as tools,
    ):
        await _make(tools, "#!/bin/sh\necho one\n")
        told = await tools.text("skill_view", name="greeting")
        assert "/skills/greeting" in told
        first = await tools.text("terminal", command="echo ready")
        assert (f"in {place}." in first) is (OWN[backend] != "/skills"), first
        said = await tools.shell(
            f"cd {place} && ./scripts/hi.sh && cat references/a.md && "
            "stat -c %a scripts/hi.sh references/a.md SKILL.md && "
            "find . -type f | sort"
        )
        # Of a machine with a network it comes as data of others.
        assert PRINTED in said
        # What a command does to its copy is gone with the next one.
        await tools.shell(
            f"cd {place} && chmod +w SKILL.md && echo 1 >SKILL.md && rm -r references"
        )
        assert PRINTED in await tools.shell(
            f"cd {place} && ./scripts/hi.sh && cat references/a.md && "
            "stat -c %a scripts/hi.sh references/a.md SKILL.md && find . -type f | sort"
        )
        # What changes is brought again, and what is gone is gone.
        await asyncio.to_thread(_change, tools.library / "greeting")
        after = await tools.text("terminal", command=f"cd {place} && ./scripts/hi.sh; ls")
        assert "two\nSKILL.md\nscripts" in after


def _change(skill: Path) -> None:
    """Change it by hand, as a turn that has read data of others may not without a person."""
    (skill / "scripts/hi.sh").write_text("#!/bin/sh\necho two\n")
    (skill / "references/a.md").unlink()
