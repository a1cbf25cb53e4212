"""SKILL.md: everything that homes hold is read, and what is written is what strict readers take."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skills_ref import validate

from agent_service.profiles.skills import document as frontmatter
from agent_service.profiles.skills.document import (
    BadSkill,
    SkillContext,
    checked,
    read,
    to_markdown,
)
from agent_service.profiles.skills.names import is_one_off, support_file
from tests.support.skills import document

FULL = """\
---
name: video-notes
description: "Take notes: of a talk"
version: 1.10
license: MIT
platforms: [linux, Telegram]
compatibility: needs ffmpeg
prerequisites:
  commands: [ffmpeg]
required_environment_variables:
  - name: KEY
    prompt: the key
metadata:
  author: somebody
  hermes:
    tags: [video, 'long talks']
    requires_toolsets: [terminal, web]
    fallback_for_tools: transcribe_audio
---
# Notes
--- a line of dashes is text
"""


def test_a_skill_of_a_home_is_read_with_its_conditions() -> None:
    found = read(FULL, "video-notes")
    assert (found.name, found.description) == ("video-notes", "Take notes: of a talk")
    assert found.fields["version"] == "1.10"
    assert found.tags == ("long talks", "video")
    assert found.conditions.platforms == {"linux", "telegram"}
    assert found.conditions.requires_toolsets == {"terminal", "web"}
    assert found.conditions.fallback_for_tools == {"transcribe_audio"}
    assert found.body.startswith("# Notes\n---")


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("", ""),
        ("# Title\n\nfirst words\nmore", "first words"),
        ("---\nname: x\n---\nfirst", "first"),
        ("---\ndescription: a: b: c\nname: [\n---\n", "a: b: c"),
        ("---\r\ndescription: |\r\n  two\r\n  lines\r\n---\r\nbody", "two lines"),
        ("\ufeff---\ndescription: marked\n---\n", "marked"),
        ("---\ndescription: [1, 2]\n---\nbody", "body"),
        ("---\nnever closed", "---"),
        ("---\n- a list\n---\nbody", "body"),
        ("---\n" + "[" * 1500 + "\n---\nbody", "body"),
        ("---\na: &a [x]\n" + "".join(f"b{n}: [*a, *a]\n" for n in range(9)) + "---\nok", "ok"),
    ],
)
def test_whatever_a_file_holds_is_read(text: str, description: str) -> None:
    found = read(text, "some_Folder")
    assert (found.name, found.description) == ("some_Folder", description)


def test_aliases_do_not_grow_without_bound() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    with pytest.raises(frontmatter.BadFrontmatter, match="too much"):
        frontmatter.parse(f"a0: &a0 [x]\n{levels}")


def test_what_is_written_passes_the_reference_validator(tmp_path: Path) -> None:
    folder = tmp_path / "video-notes"
    folder.mkdir()
    made = checked(FULL, "video-notes")
    (folder / "SKILL.md").write_text(to_markdown(made))
    assert validate(folder) == []
    again = read(to_markdown(made), "video-notes")
    assert again.description == "Take notes: of a talk"
    assert again.conditions == read(FULL, "video-notes").conditions
    assert again.tags == ("long talks", "video")
    assert again.body == read(FULL, "video-notes").body
    assert 'version: "1.10"' in to_markdown(made)
    assert to_markdown(checked(to_markdown(made), "video-notes")) == to_markdown(made)


_texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)


@settings(max_examples=30, deadline=None)
@given(description=_texts, license_name=_texts, body=_texts)
def test_any_text_that_is_taken_passes_the_reference_validator(
    tmp_path_factory: pytest.TempPathFactory, description: str, license_name: str, body: str
) -> None:
    fields = frontmatter.Fields(name="a-b", description=description, license=license_name)
    try:
        made = to_markdown(checked(f"{frontmatter.render(fields)}{body}", "a-b"))
    except (BadSkill, frontmatter.BadFrontmatter):
        assert not description.strip() or not body.strip() or "---" in description + license_name
        return
    folder = tmp_path_factory.mktemp("skills") / "a-b"
    folder.mkdir()
    (folder / "SKILL.md").write_text(made)
    assert validate(folder) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no frontmatter", "begins with frontmatter"),
        ("---\nname: [\n---\nx", "not YAML"),
        ("---\n- a\n---\nx", "not a mapping"),
        (document("other"), "called a-skill"),
        (document("A-Skill"), "no name"),
        (document("a-skill", '""'), "1 to 1,024"),
        (document("a-skill", "x" * 1025), "it has 1025"),
        (document("a-skill", compatibility="x" * 501), "500"),
        (document("a-skill", body=" "), "says nothing"),
        (document("a-skill", body="x" * 100_000), "fewer than 100,000"),
        (document("a-skill", "[a, b]"), "description is a text"),
    ],
)
def test_what_is_wrong_with_a_new_skill_is_said(text: str, problem: str) -> None:
    with pytest.raises(BadSkill, match=problem):
        checked(text, "a-skill")


def test_dashes_that_would_end_the_frontmatter_early_are_refused() -> None:
    with pytest.raises(BadSkill, match="may not contain ---"):
        to_markdown(checked(document("a-skill", '"a --- b"'), "a-skill"))


@pytest.mark.parametrize(
    ("field", "value", "holds"),
    [
        ("platforms", "[macos]", False),
        ("platforms", "[darwin, linux]", True),
        ("platforms", "[linux, telegram]", True),
        ("platforms", "[linux, cli]", False),
        ("requires_toolsets", "[web]", True),
        ("requires_toolsets", "[home]", False),
        ("requires_tools", "[web_search]", True),
        ("requires_tools", "[terminal]", False),
        ("fallback_for_toolsets", "[home]", True),
        ("fallback_for_toolsets", "[web]", False),
        ("fallback_for_tools", "[web_search]", False),
    ],
)
def test_a_skill_is_offered_where_it_can_be_used(field: str, value: str, holds: bool) -> None:
    around = SkillContext(frozenset({"web"}), frozenset({"web_search"}), "telegram")
    text = f"---\nname: a\ndescription: b\nmetadata:\n  hermes:\n    {field}: {value}\n---\nc"
    assert read(text, "a").conditions.hold(around) is holds


@pytest.mark.parametrize(
    "name",
    [
        *("pr-123", "issue-42-login", "gh77-retry", "fix-login", "cve-2024-1"),
        *("typeerror-in-parser", "module-not-found", "error-404", "deploy-3f2a91bc"),
        *("notes-2026-11-23", "traceback-reader"),
    ],
)
def test_names_of_one_occasion_are_known(name: str) -> None:
    assert is_one_off(name)


@pytest.mark.parametrize(
    "path",
    [
        *("", "SKILL.md", "references", "references/", "references/../SKILL.md", "../a", "/etc/x"),
        *("references/a/b", "references/.hidden", "other/a", "references//a", "references/a\0b"),
        *("references/" + "x" * 200, "./../references/a", "references\\a", "scripts/a b"),
    ],
)
def test_paths_that_lead_elsewhere_are_no_files_of_a_skill(path: str) -> None:
    assert support_file(path) is None


def test_a_support_file_is_known() -> None:
    assert support_file("./references/api-v2.md") == "references/api-v2.md"
