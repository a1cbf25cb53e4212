"""Slash commands as people say them at a terminal, with Tab."""

from pathlib import Path

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process, running
from tests.e2e.model import ModelProcess
from tests.e2e.terminal import CTRL_D, terminal
from tests.support.skills import document, put_skill

PROMPT = r"^>$"
TAB = "\t"
SKILL = document("paper-search", "Finds papers.", "Search the archive first.")


def test_a_terminal_completes_commands_and_skills(model: ModelProcess, tmp_path: Path) -> None:
    only_ours = {"HERMES_SKILLS_BUNDLED": "false"}
    deployment = one_process(tmp_path, model.url, sandboxed("bubblewrap"), **only_ours)
    put_skill(deployment.client.path / "skills", "paper-search", SKILL)
    with running(deployment), terminal(deployment.client, "chat") as chat:
        chat.wait_for(PROMPT)
        chat.type("/help")
        chat.wait_for("/paper_search")
        chat.wait_for(PROMPT)
        chat.press("/cr" + TAB)
        chat.wait_for("^> /cron$")
        chat.press(" ad" + TAB)
        chat.wait_for("^> /cron add$")
        chat.type(" in 2 seconds say that it is time")
        chat.wait_for(r"^Job job_[0-9a-f]{12}: in 2 seconds, next ")
        chat.wait_for("^You said: say that it is time")
        chat.wait_for(PROMPT)
        chat.press("/pap" + TAB)
        chat.wait_for("^> /paper_search$")
        chat.type(" on otters")
        chat.wait_for("^You said: ", count=2)
        chat.type("/usgae")
        chat.wait_for(r"Did you mean /usage\?")
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.wait_end() == 0
