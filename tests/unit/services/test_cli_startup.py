"""What every command does first."""

import argparse
from pathlib import Path

import pytest

from services.cli.startup import load


@pytest.mark.parametrize("given", [{"profile": "ann"}, {"profile": None}], ids=["option", "name"])
def test_a_profile_is_asked_for_by_name_however_it_was_named(
    tmp_path: Path, given: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles" / "ann").mkdir(parents=True)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_PROFILE", "" if given["profile"] else "ann")
    arguments = argparse.Namespace(**given)
    assert load(arguments).home.root == tmp_path / "profiles" / "ann"
    assert arguments.profile == "ann"


def test_who_names_no_profile_asks_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    arguments = argparse.Namespace(profile=None)
    assert load(arguments).home.root == tmp_path
    assert arguments.profile is None
