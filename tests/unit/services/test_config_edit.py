"""`hermes config set`: strict in what it writes, careful with what is there."""

import stat
from pathlib import Path

import pytest

from executor_service.config import ExecutorConfig
from services.config.edit import set_value
from services.errors import InvalidArgument
from services.home.paths import HomePaths
from services.runtime import config
from tests.unit.services.settings import MODELS, AgentConfig, LoopConfig, settings

ALL = (*MODELS, *config.MODELS)

WRITTEN = """\
# My settings
agent:
    max_turns: 10     # enough
    unheard_of: [1,   2]
terminal:
    backend: docker
    volumes:
      - a
      - "b"

# the end
"""


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(tmp_path, tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_value_changes_and_everything_else_stays(home: HomePaths) -> None:
    home.config.write_text(WRITTEN)
    home.config.chmod(0o640)
    assert set_value(home, "agent.max_turns", "20", ALL) == home.config
    assert home.config.read_text() == WRITTEN.replace("10 ", "20 ").replace("[1,   2]", "[1, 2]")
    assert mode(home.config) == 0o640
    assert list(home.root.iterdir()) == [home.config]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("streaming.enabled", "no", "  enabled: false"),
        ("streaming.enabled", "false", "  enabled: false"),
        ("approvals.mode", "off", '  mode: "off"'),
        ("agent.allowed", "[1, b]", "  - 1"),
        ("model.default", "1.10", "  default: '1.10'"),
        ("providers.new.base_url", "http://x:1/v1", "    base_url: http://x:1/v1"),
        ("services.listen", "[::1]:7000", "  listen: '[::1]:7000'"),
    ],
)
def test_a_value_reads_back_as_it_was_meant(
    home: HomePaths, key: str, value: str, line: str
) -> None:
    set_value(home, key, value, ALL)
    assert line in home.config.read_text().splitlines()
    assert mode(home.config) == 0o600
    found = settings(home.root)
    for model in ALL:
        found.load(model)


def test_comments_of_an_otherwise_empty_file_stay(home: HomePaths) -> None:
    home.config.write_text("# nothing here yet\n")
    set_value(home, "agent.max_turns", "20", ALL)
    assert home.config.read_text() == "# nothing here yet\nagent:\n  max_turns: 20\n"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "agent.max_turn",
            "5",
            "agent.max_turn: is not a known key; did you mean agent.max_turns?",
        ),
        ("HERMES_MODLE", "5", "HERMES_MODLE: is not a known key; did you mean HERMES_MODEL?"),
        ("agent", "5", "agent: is a section and takes no value itself; set agent."),
        ("approvals", "manual", "takes no value itself; set approvals.mode"),
        ("memory.limit", "5", "memory.limit: is not a known key"),
        ("providers.new.base", "5", "did you mean providers.new.base_url?"),
        ("agent.max_turns", "0", "agent.max_turns: must be greater than or equal to 1, not 0"),
        ("agent.max_turns", "[", "agent.max_turns: must be a valid integer, not '['"),
        ("HERMES_MAX_TURNS", "x", "HERMES_MAX_TURNS: must be a valid integer, not 'x'"),
        ("terminal.timeout", "1h", "terminal.timeout: must be a valid number, not '1h'"),
        ("approvals.mode", "off", "approvals.mode: approvals is a plain value in"),
    ],
)
def test_what_is_not_known_or_not_valid_is_not_written(
    home: HomePaths, key: str, value: str, told: str
) -> None:
    home.config.write_text("model: a/b\napprovals: x\n")
    with pytest.raises(InvalidArgument) as caught:
        set_value(home, key, value, ALL)
    assert told in str(caught.value)
    assert home.config.read_text() == "model: a/b\napprovals: x\n"
    assert not home.env.exists()


def test_a_name_that_is_also_a_section_leaves_the_rest_of_it(home: HomePaths) -> None:
    home.config.write_text("model:\n  default: a/b # mine\n  api_key: 0123456789ab\n")
    set_value(home, "model", "c/d", ALL)
    kept = "  api_key: 0123456789ab\n"
    assert home.config.read_text() == f"model:\n  default: c/d # mine\n{kept}"
    home.config.write_text("model: a/b # mine\nagent:\n  max_turns: 5\n")
    set_value(home, "model.default", "c/d", ALL)
    found = settings(home.root)
    assert found.load(LoopConfig).model == "c/d"
    assert "# mine" in home.config.read_text()
    home.config.write_text("model: a/b\n")
    set_value(home, "model", "c/d", ALL)
    assert home.config.read_text() == "model: c/d\n"


def test_of_two_names_the_one_in_effect_is_changed(home: HomePaths) -> None:
    home.config.write_text("executor: {backend: docker}\n")
    set_value(home, "terminal.backend", "bubblewrap", [ExecutorConfig])
    assert home.config.read_text() == "executor: {backend: bubblewrap}\n"


def test_a_variable_goes_to_the_private_file(home: HomePaths) -> None:
    home.env.write_text("# keys\nA=1\n\n# the model\nexport LLM_MODEL=old # old\nB='x y'")
    home.env.chmod(0o644)
    assert set_value(home, "LLM_MODEL", "it's new #1", ALL) == home.env
    set_value(home, "ALLOWED_USERS", "1,2", ALL)
    assert home.env.read_text() == (
        "# keys\nA=1\n\n# the model\nexport LLM_MODEL='it\\'s new #1'\nB='x y'\nALLOWED_USERS=1,2\n"
    )
    assert mode(home.env) == 0o600
    assert settings(home.root).load(LoopConfig).model == "it's new #1"


def test_a_secret_goes_to_the_private_file_whatever_it_was_called(home: HomePaths) -> None:
    assert set_value(home, "model.api_key", "a-long-enough-key", ALL) == home.env
    assert home.env.read_text() == "MODEL_API_KEY=a-long-enough-key\n"
    with pytest.raises(InvalidArgument) as caught:
        set_value(home, "model.api_key", "hunter22", ALL)
    assert "MODEL_API_KEY" in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert set_value(home, "providers.x.api_key", "k", (AgentConfig,)) == home.config


def test_what_the_file_cannot_hold_is_refused(home: HomePaths) -> None:
    with pytest.raises(InvalidArgument, match="cannot hold"):
        set_value(home, "LLM_MODEL", "a${b}c", ALL)
    assert not home.env.exists()


def test_a_link_into_somebodys_dotfiles_stays_one(home: HomePaths, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles"
    elsewhere.mkdir()
    (elsewhere / "config.yaml").write_text("agent: {max_turns: 1}\n")
    home.config.symlink_to(elsewhere / "config.yaml")
    set_value(home, "agent.max_turns", "2", ALL)
    assert home.config.is_symlink()
    assert (elsewhere / "config.yaml").read_text() == "agent: {max_turns: 2}\n"


@pytest.mark.parametrize("name", ["DEEP_SEA_API_KEY", "DEEP_SEA_BASE_URL", "SPARE_TOKEN"])
def test_a_variable_of_a_provider_that_is_named_can_be_set(home: HomePaths, name: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a known key"):
        set_value(home, name, "https://deep.example", ALL)
    home.config.write_text(
        "model: {provider: deep-sea}\nfallback_providers: [{model: m, key_env: SPARE_TOKEN}]\n"
    )
    assert set_value(home, name, "https://deep.example", ALL) == home.env
    assert home.env.read_text() == f"{name}=https://deep.example\n"
    assert mode(home.env) == 0o600


@pytest.mark.parametrize("url", ["http://old/v1", "http://new/v1"])
def test_the_key_of_an_endpoint_is_not_kept_for_another(home: HomePaths, url: str) -> None:
    home.config.write_text("providers:\n  a:\n    base_url: http://old/v1\n    api_key: secret\n")
    set_value(home, "providers.a.base_url", url, ALL)
    assert ("api_key" in home.config.read_text()) is (url == "http://old/v1")
