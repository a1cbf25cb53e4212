"""What a turn gets of the toolsets that it asks for."""

import pytest

from agent_service.config.tools import ToolsConfig
from agent_service.config.toolsets import NOTHING, TOOLSETS, known_toolset

POLICY = ToolsConfig(
    disabled=("web",), profiles={"work": ("terminal",)}, platforms={"telegram": ("file",)}
)
ONLY = ToolsConfig(
    disabled=("web",),
    platforms={"telegram": ("file",)},
    only_profiles={"work": ("web", "todo", "file"), "bare": ()},
    only_platforms={"telegram": ("todo", "file", "memory")},
)


@pytest.mark.parametrize(
    ("profile", "platform", "wanted", "gets"),
    [
        ("work", "telegram", ("todo", "skills"), ("todo", "skills")),
        ("work", "telegram", ("todo", "web", "terminal", "file"), ("todo",)),
        ("default", "cli", ("web", "terminal", "file"), ("terminal", "file")),
        ("default", "cli", ("web",), NOTHING),
        ("default", "cli", (), tuple(name for name in TOOLSETS if name != "web")),
    ],
)
def test_what_is_off_is_taken_out(
    profile: str, platform: str, wanted: tuple[str, ...], gets: tuple[str, ...]
) -> None:
    assert POLICY.toolsets_for(profile, platform, wanted) == gets


def test_nothing_is_named_where_nothing_is_off() -> None:
    assert ToolsConfig().toolsets_for("default", "cli", ()) == ()


@pytest.mark.parametrize(
    ("profile", "platform", "wanted", "gets"),
    [
        ("work", "cli", (), ("file", "todo")),
        ("work", "cli", ("todo", "memory", "web"), ("todo",)),
        ("default", "telegram", (), ("memory", "todo")),
        ("work", "telegram", (), ("todo",)),
        ("work", "telegram", ("memory",), NOTHING),
        ("bare", "cli", (), NOTHING),
        ("default", "cli", ("todo", "memory"), ("todo", "memory")),
    ],
)
def test_what_is_not_among_those_that_alone_are_on_is_taken_out(
    profile: str, platform: str, wanted: tuple[str, ...], gets: tuple[str, ...]
) -> None:
    assert ONLY.toolsets_for(profile, platform, wanted) == gets


def test_who_turned_it_off_is_said() -> None:
    assert POLICY.why_off("web", "default") == "turned off"
    assert POLICY.why_off("terminal", "work") == "turned off in the profile work"
    assert POLICY.why_off("file", "work", "telegram") == "turned off on telegram"
    assert POLICY.why_off("terminal", "default") == ""
    assert ONLY.why_off("memory", "work") == "not among those that the profile work has"
    assert ONLY.why_off("skills", "x", "telegram") == "not among those that telegram has"


def test_an_unknown_name_gives_the_nearest() -> None:
    assert known_toolset("terminal") == "terminal"
    with pytest.raises(ValueError, match="did you mean terminal"):
        known_toolset("terminla")
