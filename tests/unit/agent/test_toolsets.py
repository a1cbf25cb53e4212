"""What a turn gets of the toolsets that it asks for."""

import pytest

from agent_service.toolsets import NOTHING, TOOLSETS, ToolsetPolicy, known_toolset

POLICY = ToolsetPolicy(["web"], {"work": ["terminal"]}, {"telegram": ["file"]})


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
    assert POLICY.of(profile, platform, wanted) == gets


def test_nothing_is_named_where_nothing_is_off() -> None:
    assert ToolsetPolicy([], {}, {}).of("default", "cli", ()) == ()


def test_who_turned_it_off_is_said() -> None:
    assert POLICY.why_off("web", "default") == "turned off"
    assert POLICY.why_off("terminal", "work") == "turned off in the profile work"
    assert POLICY.why_off("file", "work", "telegram") == "turned off on telegram"
    assert POLICY.why_off("terminal", "default") == ""


def test_an_unknown_name_gives_the_nearest() -> None:
    assert known_toolset("terminal") == "terminal"
    with pytest.raises(ValueError, match="did you mean terminal"):
        known_toolset("terminla")
