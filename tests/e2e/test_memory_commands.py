"""What is remembered, as a person sees and mends it."""

from pathlib import Path

from tests.e2e.home import Home


def test_memories_are_shown_and_changes_taken_back(tmp_path: Path) -> None:
    home = Home.make(tmp_path)
    assert "Empty." in home.run("memory", "show").out
    assert "The memory has no changes yet." in home.run("memory", "history").out
    (home.path / "memories").mkdir(exist_ok=True)
    (home.path / "memories" / "USER.md").write_text("Lives in Rome.\n§\nLikes tea.")
    shown = home.run("memory", "show")
    assert "── user  27 of 1375 characters\n• Lives in Rome.\n• Likes tea.\n" in shown.out
    described = home.run("memory", "show", "--json").json
    assert described["user"]["entries"] == ["Lives in Rome.", "Likes tea."]
    assert described["memory"]["char_limit"] == 2200
    undone = home.run("memory", "undo", "chg_none")
    assert (undone.status, undone.out) == (1, "")
    assert undone.err == "hermes: there is no change chg_none\n"


def test_honcho_is_set_up_and_its_state_is_told(tmp_path: Path) -> None:
    home = Home.make(tmp_path)
    assert "hermes memory setup" in home.run("memory", "status").out
    asked = home.run("memory", "setup")
    assert (asked.status, "HONCHO_API_KEY" in asked.err) == (2, True)
    away = home.run("memory", "setup", "--base-url", "http://127.0.0.1:9")
    assert away.status == 1
    assert "Honcho cannot be reached" in away.err
    assert "nothing was written" in away.err
    assert not (home.path / "config.yaml").exists()
    home.configure({"memory": {"provider": "honcho"}, "honcho": {"base_url": "http://127.0.0.1:9"}})
    told = home.run("memory", "status", "--json").json
    assert told["name"] == "honcho"
    assert told["problem"].startswith("Honcho cannot be reached")
    assert "Honcho cannot be reached" in home.run("doctor").out
