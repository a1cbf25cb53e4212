"""Names that nobody reads, and everything that is wrong told at once."""

from pathlib import Path

import pytest

from executor_service.backends import BACKENDS
from services.cli.startup import catalog
from services.config.catalog import ConfigCatalog, check_settings
from services.config.settings import ConfigError, load_settings
from services.runtime import config as config_models
from tests.unit.services.settings import MODELS, settings

CATALOG = ConfigCatalog((*MODELS, *config_models.MODELS))


def messages(home: Path, yaml: str, env_file: str = "") -> list[str]:
    found = settings(home, yaml, env_file=env_file)
    return check_settings(found, CATALOG)


def test_an_unknown_key_of_a_home_is_named_with_the_nearest(tmp_path: Path) -> None:
    yaml = "agent:\n  max_turn: 5\n  max_turns: 6\nterminl:\n  a: {b: 1}\nunheard_of: 1\n"
    config = tmp_path / "config.yaml"
    unknown = "is not a known key and has no effect"
    assert messages(tmp_path, yaml) == [
        f"agent.max_turn ({config}, line 2): {unknown}; did you mean agent.max_turns?",
        f"terminl ({config}, line 4): {unknown}; did you mean terminal?",
        f"unheard_of ({config}, line 6): {unknown}",
    ]
    assert config.read_text() == yaml


def told(home: Path, yaml: str) -> dict[str, str]:
    """The key that each warning suggests, by the key that it is about."""
    (home / "config.yaml").write_text(yaml)
    notices = check_settings(load_settings({}, {"HERMES_HOME": str(home)}), catalog())
    unknown = "is not a known key and has no effect"
    assert all(unknown in notice for notice in notices), notices
    return {each.partition(" ")[0]: each.partition("did you mean ")[2] for each in notices}


def test_a_key_that_nothing_reads_is_named_in_every_group(tmp_path: Path) -> None:
    yaml = (
        "_config_version: 3\ncompression: {treshold: 0.5}\nsecurity: {tain: ask}\nskills:\n"
        "platforms: {telegrm: {enabled: true}, telegram: {alowed_users: [1]},\n"
        "  slack: {allowed_users: [1]}}\n"
        "display: {compact: true}\nthreshold: 0.4\n"
    )
    assert told(tmp_path, yaml) == {
        "compression.treshold": "compression.threshold?",
        "security.tain": "security.taint?",
        "platforms.telegrm": "platforms.telegram?",
        "platforms.telegram.alowed_users": "platforms.telegram.extra.allowed_users?",
        "platforms.slack.allowed_users": "platforms.slack.extra.allowed_users?",
        "display.compact": "",
        "threshold": "compression.threshold?",
    }


def test_so_is_one_among_names_that_a_person_does_not_choose(tmp_path: Path) -> None:
    yaml = (
        "auxiliary: {compresion: {model: x}, vision: {modell: y, timeout: 5}}\n"
        "tools: {platforms: {telegrm: [web], cli: [web]}, profiles: {ann: [web]}}\n"
        "session_reset: {platforms: {irc: {mode: idle}}}\n"
        "providers: {mine: {api: 'http://127.0.0.1:1/v1', transport: x, default_model: m, "
        "nam: z}}\n"
        "models: {some/model: {windo: 5}}\n"
    )
    with pytest.raises(ConfigError, match="windo"):
        told(tmp_path, yaml)
    assert told(tmp_path, yaml.replace("windo:", "window:")) == {
        "auxiliary.compresion": "auxiliary.compression?",
        "auxiliary.vision.modell": "auxiliary.vision.model?",
        "auxiliary.vision.timeout": "terminal.timeout?",
        "tools.platforms.telegrm": "tools.platforms.telegram?",
        "session_reset.platforms.irc": "",
        "providers.mine.nam": "",
    }


@pytest.mark.parametrize("key", ["executor", "terminal"])
def test_a_backend_that_there_is_not_is_an_error(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        told(tmp_path, f"{key}: {{backend: dokcer}}\n")
    assert str(caught.value) == (
        f"{key}.backend ({tmp_path}/config.yaml, line 1): must be 'docker', 'bubblewrap', "
        "'singularity', 'modal', 'kubernetes', 'ssh' or 'local', not 'dokcer'"
    )
    with pytest.raises(ConfigError, match=r"templates\.big\.backend"):
        told(tmp_path, "executor: {templates: {big: {backend: dokcer}}}\n")
    assert told(tmp_path, f"{key}: {{backend: Docker}}\n") == {}


def test_every_backend_can_be_set(tmp_path: Path) -> None:
    allowed = "security: {allow_local_backend: true}\n"
    for name in BACKENDS:
        assert told(tmp_path, f"{allowed}executor: {{backend: {name}}}\n") == {}


def test_a_memory_that_there_is_not_yet_is_remarked_on(tmp_path: Path) -> None:
    def messages(home: Path, yaml: str) -> list[str]:
        return check_settings(settings(home, yaml), catalog())

    (found,) = messages(tmp_path, "memory: {provider: mem0}\n")
    assert found.startswith(f"memory.provider ({tmp_path}/config.yaml, line 1) has no effect: ")
    assert "mem0 is not available" in found
    for own in ("''", "builtin", "none", "honcho"):
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
        "set approvals.mode"
    )
    assert "set agent.allowed or agent.max_turns" in found["agent"]
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
        "HERMES_DATABASE_URL_FILE": "/dev/null",
        "HERMES_EMPTY": "",
        "OTHER_MODLE": "y",
    }
    with pytest.raises(ConfigError) as caught:
        check_settings(settings(tmp_path, environ=environ), CATALOG)
    assert str(caught.value) == (
        "HERMES_MODLE (environment): is not a known variable; did you mean HERMES_MODEL?"
    )


def test_what_kubernetes_tells_of_services_is_no_setting(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    for service in ("HERMES_DB_RW", "HERMES", "HERMES_METRICS"):
        environ |= {
            f"{service}_SERVICE_HOST": "10.96.0.7",
            f"{service}_SERVICE_PORT": "5432",
            f"{service}_SERVICE_PORT_POSTGRES": "5432",
            f"{service}_PORT": "tcp://10.96.0.7:5432",
            f"{service}_PORT_5432_TCP": "tcp://10.96.0.7:5432",
            f"{service}_PORT_5432_TCP_PROTO": "tcp",
            f"{service}_PORT_5432_TCP_PORT": "5432",
            f"{service}_PORT_5432_TCP_ADDR": "10.96.0.7",
        }
    environ["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    found = settings(tmp_path, environ=environ)
    check_settings(found, CATALOG)
    assert set(found.environ) == {"HERMES_HOME", "KUBERNETES_SERVICE_HOST"}
    environ["HERMES_METRICS_PORT"] = "9464"
    assert settings(tmp_path, environ=environ).environ["HERMES_METRICS_PORT"] == "9464"
    environ["HERMES_DB_RW_URL"] = "x"
    with pytest.raises(ConfigError, match="HERMES_DB_RW_URL"):
        check_settings(settings(tmp_path, environ=environ), CATALOG)


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
    shown = {each.key: (each.value, each.where) for each in CATALOG.show(found)}
    assert shown["agent.max_turns"] == ("7", f"agent.max_turns, {tmp_path}/config.yaml, line 2")
    assert shown["agent.allowed"][0] == "a, b"
    assert shown["model.api_key"] == ("(set, not shown)", f"MODEL_API_KEY, {tmp_path}/.env, line 1")
    assert shown["services.log.level"] == ("debug", "--log-level, command line")
    assert shown["services.metrics.port"] == ("9464", "default")
    assert shown["streaming.enabled"] == ("true", "default")
