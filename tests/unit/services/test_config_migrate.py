"""`hermes config edit` and `migrate`: nothing of a person's file is lost."""

import stat
from pathlib import Path

import pytest

from services.cli.config import COMMAND
from services.cli.main import parser_of
from services.cli.startup import catalog
from services.config.catalog import check_settings
from services.config.settings import ConfigError, load_settings

OLDER = """\
# Mine.
model: some/model   # good enough
fallback_model: {provider: openai, model: gpt-5.4}
agent:
  # not more
  max_turns: 40
approvals:
  cron_mode: deny
unknown: [1, 2]
"""
MIGRATED = """\
# Mine.
agent:
  # not more
  max_turns: 40
approvals:
  unattended: deny
unknown: [1, 2]
model:              # good enough
  default: some/model
fallback_providers: {provider: openai, model: gpt-5.4}
"""


def hermes_config(home: Path, *arguments: str) -> int:
    return COMMAND.run(parser_of("config").parse_args(["--home", str(home), *arguments]))


def editor(home: Path, script: str) -> str:
    path = home / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return f"{path} --wait"


def in_effect(home: Path) -> set[tuple[str, str]]:
    settings = load_settings({"home": str(home)}, {})
    return {(row.key, row.value) for row in catalog().show(settings)}


def test_older_names_become_the_present_ones_and_mean_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(OLDER)
    config.chmod(0o640)
    before = in_effect(tmp_path)
    assert hermes_config(tmp_path, "migrate", "--dry-run") == 0
    assert "approvals.cron_mode" in capsys.readouterr().out
    assert config.read_text() == OLDER
    assert hermes_config(tmp_path, "migrate", "--yes") == 0
    assert config.read_text() == MIGRATED
    assert in_effect(tmp_path) == before
    (copy,) = tmp_path.glob("config.yaml.bak.*")
    assert copy.read_text() == OLDER
    assert {stat.S_IMODE(path.stat().st_mode) for path in (config, copy)} == {0o640}
    capsys.readouterr()
    assert hermes_config(tmp_path, "migrate", "--yes") == 0
    assert "no old names" in capsys.readouterr().out


def test_a_newer_name_holds_and_an_older_one_beside_it_stays(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("approvals: {unattended: wait, cron_mode: deny}\n")
    assert hermes_config(tmp_path, "migrate", "--yes") == 0
    assert config.read_text() == "approvals: {unattended: wait, cron_mode: deny}\n"


def test_a_single_mapping_is_a_list_of_one(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(OLDER)
    check_settings(load_settings({"home": str(tmp_path)}, {}), catalog())
    shown = dict(in_effect(tmp_path))
    assert "gpt-5.4" in shown["fallback_providers"]


def test_what_was_edited_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'echo "agent: {max_turns: 7}" >"$2"'))
    assert hermes_config(tmp_path, "edit") == 0
    assert "have no problems" in capsys.readouterr().out
    config = tmp_path / "config.yaml"
    assert config.read_text() == "agent: {max_turns: 7}\n"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    monkeypatch.setenv("VISUAL", editor(tmp_path, 'echo "agent: {max_turns: 0}" >"$2"'))
    with pytest.raises(ConfigError, match=r"agent\.max_turns"):
        hermes_config(tmp_path, "edit")


def test_a_file_that_cannot_be_read_can_be_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("agent: [\n")
    monkeypatch.setenv("VISUAL", editor(tmp_path, 'echo "{}" >"$2"; exit 3'))
    assert hermes_config(tmp_path, "edit") == 1
    assert (tmp_path / "config.yaml").read_text() == "{}\n"
