"""The skills that come with Hermes are in form, and nothing in them is kept from models."""

import re
from pathlib import Path

import pytest
from skills_ref import validate

from agent_service.config import AgentConfig
from agent_service.profiles.skills.document import checked
from agent_service.profiles.skills.index import MAX_DESCRIPTION_CHARS
from agent_service.profiles.skills.names import is_one_off
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import CommandClass
from agent_service.security.threats import ThreatScanner
from services.config.settings import load_settings
from tests.support.bundled import FOLDERS, runnable
from tests.support.markdown import ROOT as REPOSITORY

IDS = [folder.name for folder in FOLDERS]

each_skill = pytest.mark.parametrize("folder", FOLDERS, ids=IDS)


def test_there_are_enough() -> None:
    assert len(FOLDERS) >= 19
    assert len({folder.name for folder in FOLDERS}) == len(FOLDERS)


@each_skill
def test_it_is_valid_by_the_format_and_by_our_own_rules(folder: Path) -> None:
    assert validate(folder) == []
    document = checked((folder / "SKILL.md").read_text(), folder.name)
    assert len(document.description) <= MAX_DESCRIPTION_CHARS, "the index would cut it"
    assert re.search(r"\bUse it\b", document.description)
    assert not is_one_off(folder.name)


@each_skill
def test_nothing_in_it_is_blocked(folder: Path) -> None:
    scanner = ThreatScanner()
    for path in folder.rglob("*"):
        if path.is_file():
            text, threats = scanner.clean(path.read_text())
            assert threats == (), path
            assert text == path.read_text()


@each_skill
def test_its_commands_need_no_approval(folder: Path) -> None:
    classifier = CommandClassifier()
    for command in runnable(folder):
        assert classifier.classify(command).kind is CommandClass.SAFE, command


def test_the_documentation_lists_them() -> None:
    text = (REPOSITORY / "docs" / "skills.md").read_text()
    listed = re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(IDS)


def test_they_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("skills:\n  bundled: false\n")
    settings = load_settings({"home": str(tmp_path)}, {"HOME": str(tmp_path)})
    assert not settings.load(AgentConfig).skills.bundled
