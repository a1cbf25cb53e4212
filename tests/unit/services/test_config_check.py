"""Names that nobody reads, and everything that is wrong told at once."""

from pathlib import Path

import pytest

from services.config.catalog import ConfigCatalog, check_settings
from services.config.settings import ConfigError
from services.runtime import config as config_models
from tests.unit.services.settings import MODELS, settings

CATALOG = ConfigCatalog((*MODELS, *config_models.MODELS))


def messages(home: Path, yaml: str, env_file: str = "") -> list[str]:
    found = settings(home, yaml, env_file=env_file)
    return check_settings(found, CATALOG)


def test_an_unknown_key_of_a_home_is_named_with_the_nearest(tmp_path: Path) -> None:
    yaml = "agent:\n  max_turn: 5\n  max_turns: 6\nmemry:\n  a: {b: 1}\nunheard_of: 1\n"
    config = tmp_path / "config.yaml"
    unknown = "is not a known key and has no effect"
    assert messages(tmp_path, yaml) == [
        f"agent.max_turn ({config}, line 2): {unknown}; did you mean agent.max_turns?",
        f"memry ({config}, line 4): {unknown}; did you mean memory?",
        f"unheard_of ({config}, line 6): {unknown}",
    ]
    assert config.read_text() == yaml


def test_groups_of_other_features_are_accepted(tmp_path: Path) -> None:
    yaml = (
        "_config_version: 3\nmemory: {memory_char_limit: 2200}\nskills:\ncurator: {enabled: true}\n"
        "platforms: {telegram: {enabled: true}}\nauxiliary: {vision: {model: x}}\nagent:\n"
        "security: {taint: ask}\nmcp_servers: {a: {command: [b]}}\ndisplay: {compact: true}\n"
    )
    assert messages(tmp_path, yaml) == []


def test_a_memory_that_there_is_not_yet_is_remarked_on(tmp_path: Path) -> None:
    (found,) = messages(tmp_path, "memory: {provider: honcho}\n")
    assert found.startswith(f"memory.provider ({tmp_path}/config.yaml, line 1) has no effect yet: ")
    assert "honcho is not available in this version" in found
    for own in ("''", "builtin", "none"):
        assert messages(tmp_path, f"memory: {{provider: {own}}}\n") == []
    (found,) = messages(tmp_path, "auxiliary: {review: {model: small}}\n")
    assert found.startswith(f"auxiliary.review ({tmp_path}/config.yaml, line 1) has no effect: ")


def test_names_that_a_person_chooses_are_known_and_what_they_hold_is_looked_at(
    tmp_path: Path,
) -> None:
    yaml = "terminal: {backnd: docker}\nmodel: {default: x, defualt: y}\n"
    found = messages(tmp_path, yaml)
    assert "did you mean terminal.backend?" in found[0]
    assert "did you mean model.default?" in found[1]
    assert len(found) == 2


def test_a_section_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        messages(tmp_path, "agent: 5\nterminal: [x]\nservices: {log: debug}\napprovals: manual\n")
    found = {problem.key: str(problem) for problem in caught.value.problems}
    assert set(found) == {"agent", "approvals", "services.log", "terminal"}
    assert found["approvals"] == (
        f"approvals ({tmp_path}/config.yaml, line 4): is a section and takes no value itself; "
        "set approvals.mode, such as `approvals.mode: manual`"
    )
    assert "set agent.allowed or agent.max_turns" in found["agent"]
    assert "such as `services.log.level: debug`" in found["services.log"]
    assert messages(tmp_path, "agent:\nterminal: ''\nmodel: name\n") == [], "nothing is set there"


def test_an_unknown_key_in_a_group_of_ours_is_an_error(tmp_path: Path) -> None:
    yaml = "services:\n  metrics: {prot: 9000}\nexecutor:\n  worker: 3\n"
    with pytest.raises(ConfigError) as caught:
        check_settings(settings(tmp_path, yaml), CATALOG)
    lines = str(caught.value).replace(str(tmp_path), "~").splitlines()
    unknown = "is not a known key; did you mean"
    assert lines == [
        f"services.metrics.prot (~/config.yaml, line 2): {unknown} services.metrics.port?",
        f"executor.worker (~/config.yaml, line 4): {unknown} executor.workers?",
    ]


def test_an_unknown_variable_of_ours_is_an_error(tmp_path: Path) -> None:
    environ = {
        "HERMES_MODLE": "x",
        "HERMES_REQUIRE": "docker",
        "HERMES_SCALE": "1",
        "HERMES_CORPORA": "/c",
        "HERMES_FUZZ_INPUTS": "1",
        "HERMES_FUZZ_SEED": "2",
        "HERMES_HUMAN_DELAY_MODE": "off",
        "HERMES_DATABASE_URL_FILE": "/dev/null",
        "HERMES_EMPTY": "",
        "OTHER_MODLE": "y",
    }
    with pytest.raises(ConfigError) as caught:
        check_settings(settings(tmp_path, environ=environ), CATALOG)
    assert str(caught.value) == (
        "HERMES_MODLE (environment): is not a known variable; did you mean HERMES_MODEL?"
    )


def test_an_unknown_variable_in_a_home_is_remarked_on(tmp_path: Path) -> None:
    (found,) = messages(tmp_path, "", "HERMES_MODLE=x\nWHATEVER=1\n")
    unknown = "is not a known variable; did you mean HERMES_MODEL?"
    assert found == f"HERMES_MODLE ({tmp_path}/.env, line 1): {unknown}"


def test_all_models_problems_are_told_at_once_and_each_once(tmp_path: Path) -> None:
    yaml = "agent: {max_turns: x}\nservices: {log: {level: loud}, metrics: {port: -1}, odd: 1}\n"
    twice = ConfigCatalog((*CATALOG.models, *CATALOG.models))
    with pytest.raises(ConfigError) as caught:
        check_settings(settings(tmp_path, yaml, environ={"HERMES_X": "1"}), twice)
    assert [p.key for p in caught.value.problems] == [
        "agent.max_turns",
        "services.log.level",
        "services.metrics.port",
        "HERMES_X",
        "services.odd",
    ]


def test_what_is_in_effect_is_shown_with_its_source_and_no_secret(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "agent:\n  max_turns: 7\n  allowed: [a, b]\n",
        env_file="MODEL_API_KEY=a-long-enough-key\n",
        flags={"log_level": "debug"},
    )
    shown = {each.setting.key: (each.value, each.where) for each in CATALOG.show(found)}
    assert shown["agent.max_turns"] == ("7", f"agent.max_turns, {tmp_path}/config.yaml, line 2")
    assert shown["agent.allowed"][0] == "a, b"
    assert shown["model.api_key"] == ("(set, not shown)", f"MODEL_API_KEY, {tmp_path}/.env, line 1")
    assert shown["services.log.level"] == ("debug", "--log-level, command line")
    assert shown["services.metrics.port"] == ("9464", "default")
    assert shown["streaming.enabled"] == ("true", "default")
