"""`hermes config`: what it says and its exit status."""

from pathlib import Path

import pytest

from services.cli.main import parser_of


def run(home: Path, *arguments: str) -> int:
    from services.cli.config import COMMAND

    return COMMAND.run(parser_of("config").parse_args([*arguments, "--home", str(home)]))


def test_a_key_or_provider_that_there_is_not_makes_the_check_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("model: {provider: opnrouter}\nsecurity: {tain: ask}\n")
    assert run(tmp_path, "check") == 1
    told = capsys.readouterr().out
    assert "did you mean security.taint?" in told
    assert "The provider opnrouter is not known" in told
    config.write_text("model: {provider: openrouter}\nsecurity: {taint: ask}\n")
    assert run(tmp_path, "check") == 0


def test_a_setting_that_is_not_in_effect_is_remarked_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_MODEL", "other")
    assert run(tmp_path, "set", "model", "mine") == 0
    assert "HERMES_MODEL (environment) takes precedence over it" in capsys.readouterr().err
    assert run(tmp_path, "set", "agent.max_turns", "5") == 0
    assert "priority" not in capsys.readouterr().err
