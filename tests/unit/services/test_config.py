"""Settings: where they come from, what wins, what is refused, and what every service has."""

import os
import traceback
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import SecretStr

from executor_service.config import ExecutorConfig
from services.config.redacted_repr import RedactedRepr
from services.config.settings import ConfigError, ConfigModel, Flag, Yaml, load_settings
from services.rpc.addresses import TcpAddress, UnixAddress
from services.runtime.config import ServiceConfig
from tests.unit.services.settings import AgentConfig, LoopConfig, settings


def lines(caught: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return str(caught.value).splitlines()


def test_each_source_gives_way_to_the_one_above_it(tmp_path: Path) -> None:
    assert settings(tmp_path).load(LoopConfig).max_turns == 90
    yaml = "agent:\n  max_turns: 10\n"
    assert settings(tmp_path, yaml).load(LoopConfig).max_turns == 10
    in_file = settings(tmp_path, yaml, env_file="HERMES_MAX_TURNS=20\n")
    assert in_file.load(LoopConfig).max_turns == 20
    environ = {"HERMES_MAX_TURNS": "30"}
    assert settings(tmp_path, environ=environ).load(LoopConfig).max_turns == 30
    flags = {"turns": 40}
    assert settings(tmp_path, environ=environ, flags=flags).load(LoopConfig).max_turns == 40


def test_an_empty_variable_and_an_option_not_given_count_as_unset(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "agent: {max_turns: 10}\nmodel: ''\nstreaming:\n  enabled:\n",
        env_file="LLM_MODEL=b\nHERMES_MODEL=\n",
        environ={"HERMES_MAX_TURNS": "", "HERMES_MODEL": ""},
        flags={"turns": None},
    ).load(LoopConfig)
    assert (found.max_turns, found.model, found.stream) == (10, "b", True)


def test_the_first_name_that_is_set_wins(tmp_path: Path) -> None:
    environ = {"LLM_MODEL": "second", "HERMES_MODEL": "first"}
    assert settings(tmp_path, environ=environ).load(LoopConfig).model == "first"
    del environ["HERMES_MODEL"]
    assert settings(tmp_path, environ=environ).load(LoopConfig).model == "second"


@pytest.mark.parametrize(
    ("yaml", "model"),
    [
        ("model: a/b\n", "a/b"),
        ("model:\n  default: a/b\n", "a/b"),
        ("model:\n  provider: openrouter\n", None),
    ],
)
def test_a_path_may_have_an_older_shorter_form(
    tmp_path: Path, yaml: str, model: str | None
) -> None:
    assert settings(tmp_path, yaml).load(LoopConfig).model == model


def test_text_becomes_what_the_field_wants(tmp_path: Path) -> None:
    environ = {
        "ALLOWED_USERS": "1, two ,,3",
        "HERMES_STREAM": "off",
        "HERMES_PROVIDERS": '{"a": {"base_url": "http://x"}}',
    }
    found = settings(tmp_path, environ=environ)
    assert found.load(LoopConfig).allowed == ("1", "two", "3")
    assert found.load(LoopConfig).stream is False
    assert found.load(AgentConfig).providers["a"].base_url == "http://x"


def test_words_of_older_yaml_stay_words(tmp_path: Path) -> None:
    found = settings(tmp_path, "approvals:\n  mode: off\nstreaming:\n  enabled: no\n")
    assert found.load(LoopConfig).mode == "off"
    assert found.load(LoopConfig).stream is False


def test_every_problem_is_one_line_with_its_place(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "agent:\n  max_turns: ninety\n\napprovals:\n  mode: always\nstreaming:\n  enabled: 5\n",
    )
    with pytest.raises(ConfigError) as caught:
        found.load(LoopConfig)
    config = tmp_path / "config.yaml"
    assert lines(caught) == [
        f"agent.max_turns ({config}, line 2): must be a valid integer, not 'ninety'",
        f"approvals.mode ({config}, line 5): must be 'manual', 'smart' or 'off', not 'always'",
        f"streaming.enabled ({config}, line 7): must be a valid boolean, not 5",
    ]


def test_what_is_required_says_how_to_set_it(tmp_path: Path) -> None:
    class Required(ConfigModel):
        token: Annotated[str, Yaml("hub.token"), Flag("hub_token")]
        """Needed."""

    with pytest.raises(ConfigError) as caught:
        settings(tmp_path).load(Required)
    assert lines(caught) == ["hub.token: is required; set hub.token in config.yaml or --hub-token"]


@pytest.mark.parametrize(
    ("model", "key", "sources"),
    [
        (LoopConfig, "model.api_key", {"yaml": "model:\n  api_key: hunter22\n"}),
        (LoopConfig, "MODEL_API_KEY", {"env_file": "MODEL_API_KEY=hunter22\n"}),
        (LoopConfig, "MODEL_API_KEY", {"environ": {"MODEL_API_KEY": "hunter22"}}),
        (LoopConfig, "model.api_key", {"yaml": "model:\n  api_key: [hunter22]\n"}),
        (AgentConfig, "providers.a.api_key", {"yaml": "providers: {a: {api_key: [hunter22]}}\n"}),
    ],
)
def test_a_secret_is_never_shown(
    tmp_path: Path, model: type[ConfigModel], key: str, sources: dict[str, str]
) -> None:
    found = settings(tmp_path, **sources)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        found.load(model)
    trace = "".join(traceback.format_exception(caught.value))
    assert key in str(caught.value)
    assert "hunter22" not in trace + repr(found)


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a key from a mounted file\n")
    environ = {"MODEL_API_KEY_FILE": str(tmp_path / "key")}
    found = settings(tmp_path, environ=environ)
    assert found.load(LoopConfig).api_key == SecretStr("a key from a mounted file")
    assert "a key from a mounted file" in set(found.secret_values())
    both = settings(tmp_path, environ={**environ, "MODEL_API_KEY": "the variable itself"})
    assert both.load(LoopConfig).api_key == SecretStr("the variable itself")
    (tmp_path / "key").unlink()
    with pytest.raises(ConfigError, match=r"MODEL_API_KEY_FILE.*No such file"):
        found.load(LoopConfig)


def test_secrets_are_known_by_their_names(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "platforms:\n  telegram: {token: t-1, chat: c-1}\ndb: postgresql://u:p-1@h/d\n",
        env_file="OPENROUTER_API_KEY=k-1\nHERMES_MODEL=m-1\n",
        environ={
            "MODAL_TOKEN_SECRET": "s-1",
            "PATH": "/bin",
            "URL": "https://u:p-2@h",
            "SSH_KEY_PATH": "/srv/key",
            "PASSWORD_STORE_DIR": "/srv/pass",
        },
    )
    assert set(found.secret_values()) == {"t-1", "p-1", "k-1", "s-1", "p-2"}


def test_the_environment_of_the_process_is_used_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_MAX_TURNS", "33")
    (tmp_path / ".env").write_text("LLM_MODEL=x\nPICKED=${HERMES_MAX_TURNS}\n")
    before = dict(os.environ)
    found = load_settings({})
    assert found.load(LoopConfig).max_turns == 33
    assert found.load(LoopConfig).model == "x"
    picked = found.variable("PICKED")
    assert picked is not None
    assert picked.value == "33"
    assert dict(os.environ) == before


def test_files_of_a_home_may_be_saved_on_windows(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes("über\r\n".encode("utf-16"))
    (tmp_path / ".env").write_bytes(f"A=1\r\nB_FILE={tmp_path}/key\r\n".encode("utf-16"))
    (tmp_path / "config.yaml").write_bytes("agent:\r\n  max_turns: 33\r\n".encode("utf-16"))
    found = load_settings({}, {"HERMES_HOME": str(tmp_path)})
    key = found.secret_file("B")
    assert key is not None
    assert (key.value, found.load(LoopConfig).max_turns) == ("über", 33)


def test_variables_stand_for_their_values_in_any_setting(tmp_path: Path) -> None:
    yaml = (
        "agent: {max_turns: '${TURNS}'}\nmodel: {default: '${MAKER}/${NAME:-small}'}\n"
        "providers:\n  own: {base_url: '${URL}'}\n"
    )
    found = settings(tmp_path, yaml, env_file="TURNS=33\nURL=http://a\n", environ={"MAKER": "x"})
    loop = found.load(LoopConfig)
    assert (loop.max_turns, loop.model, found.yaml.notices) == (33, "x/small", ())
    assert found.load(AgentConfig).providers["own"].base_url == "http://a"


def test_a_variable_that_nobody_sets_is_told(tmp_path: Path) -> None:
    yaml = "model: {default: '${NAME}'}\ntitle: 'costs ${MUCH}'\n"
    found = settings(tmp_path, yaml, environ={"NAME": ""})
    assert found.load(LoopConfig).model is None
    title = found.yaml.find("title")
    assert title is not None
    assert title.value == "costs ${MUCH}"
    assert found.yaml.notices == tuple(
        f"{tmp_path}/config.yaml, line {n}: {name} is not set; set it in .env or in the environment"
        for n, name in ((1, "NAME"), (2, "MUCH"))
    )


def test_a_secret_that_a_variable_stands_for_is_known(tmp_path: Path) -> None:
    found = settings(tmp_path, "model: {api_key: '${MINE}'}\n", environ={"MINE": "s" * 20})
    assert "s" * 20 in list(found.secret_values())


def test_a_line_that_is_no_variable_is_remarked_on_without_its_text(tmp_path: Path) -> None:
    found = settings(tmp_path, env_file="A=1\nsk-secret text\nB=2\n")
    assert list(found.env_file.notices) == [
        f"{tmp_path}/.env, line 2 is not NAME=value; the line is ignored"
    ]


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        ("a: b: c\n", "config.yaml, line 1: is not valid YAML: mapping values are not allowed"),
        ("a: 1\n\tb: 2\n", "config.yaml, line 2: is not valid YAML"),
        ("a: 1\na: s-1\n", 'config.yaml, line 2: is not valid YAML: found duplicate key "a"'),
        ("a: *x\n", "config.yaml, line 1: is not valid YAML: found undefined alias"),
        ("- a\n", "config.yaml: must have `name: value` lines at its top"),
        ("a: \x01\n", "config.yaml: is not valid YAML: it has control characters"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, yaml: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, yaml)
    assert told in str(caught.value)
    assert len(lines(caught)) == 1


def test_an_older_home_never_runs_on_the_host(tmp_path: Path) -> None:
    yaml = "terminal:\n  timeout: 5\n  backend: local\n"
    found = settings(tmp_path, yaml)
    terminal = found.load(AgentConfig).terminal
    assert (terminal.backend, terminal.timeout_s) == (None, 5)
    (told,) = found.not_on_host()
    assert f"terminal.backend: local ({tmp_path}/config.yaml, line 3) is not used" in told


def test_the_host_is_used_only_where_the_owner_says_so(tmp_path: Path) -> None:
    yaml = "terminal: {backend: local}\nsecurity: {allow_local_backend: true}\n"
    found = settings(tmp_path, yaml)
    assert found.load(AgentConfig).terminal.backend == "local"
    assert found.not_on_host() == []
    with pytest.raises(ConfigError, match="allow_local_backend"):
        settings(tmp_path, yaml.replace("true", "perhaps"))


@pytest.mark.parametrize(
    ("text", "dotenv", "environ", "used"),
    [
        ("executor: {backend: local}\nterminal: {backend: docker}\n", "", {}, "docker"),
        ("terminal: {backend: docker}\n", "HERMES_BACKEND=Local\n", {}, "docker"),
        ("", "HERMES_BACKEND=ssh\n", {"HERMES_BACKEND": "local"}, "ssh"),
        ("terminal: {backend: local}\n", "", {"HERMES_BACKEND": " local"}, ""),
    ],
)
def test_the_host_is_used_by_no_other_name_either(
    tmp_path: Path, text: str, dotenv: str, environ: dict[str, str], used: str
) -> None:
    found = settings(tmp_path, text, env_file=dotenv, environ=environ)
    assert found.load(ExecutorConfig).backend == used
    assert all(": local (" in told for told in found.not_on_host())
    assert found.not_on_host()
    text += "security: {allow_local_backend: true}\n"
    allowed = settings(tmp_path, text, env_file=dotenv, environ=environ)
    assert allowed.load(ExecutorConfig).backend.strip().lower() == "local"
    assert allowed.not_on_host() == []


def test_a_field_must_say_where_it_comes_from(tmp_path: Path) -> None:
    class Nowhere(ConfigModel):
        x: int = 1

    with pytest.raises(TypeError, match=r"Nowhere\.x says no Yaml, Env or Flag"):
        settings(tmp_path).load(Nowhere)


def test_each_of_several_keys_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("k-3,k-4\n")
    environ = {"A_API_KEYS": "k-1, k-2,", "B_API_KEYS_FILE": str(tmp_path / "keys")}
    found = settings(tmp_path, environ=environ)
    assert set(found.secret_values()) == {"k-1", "k-2", "k-3", "k-4"}


def test_a_home_without_settings_is_one_process_on_this_machine(tmp_path: Path) -> None:
    found = settings(tmp_path)
    config = found.load(ServiceConfig)
    socket = UnixAddress(tmp_path / "run" / "hermes.sock")
    assert config.addresses.find("agent", found.home) == socket
    assert config.listen is None
    assert config.tls.files is None
    assert config.database.url_of("agent", found.home) == f"sqlite:///{tmp_path}/state/agent.db"
    assert (config.metrics.host, config.metrics.port) == ("127.0.0.1", 9464)
    assert (config.log.level, config.log.format) == ("info", "json")
    assert config.instance


def test_four_processes_are_variables_only(tmp_path: Path) -> None:
    environ = {
        "HERMES_LISTEN": "0.0.0.0:7001",
        "HERMES_AGENT_ADDRESS": "dns:///agent:7001",
        "HERMES_DATABASE_URL": "postgresql+psycopg://h:secret-word@db/hermes_{service}",
        "HERMES_TLS_CA": "/tls/ca.crt",
        "HERMES_TLS_CERTIFICATE": "~/tls.crt",
        "HERMES_TLS_KEY": "/tls/tls.key",
        "HERMES_INSTANCE": "agent-0",
    }
    found = settings(tmp_path, environ=environ)
    config = found.load(ServiceConfig)
    assert config.listen == TcpAddress("0.0.0.0", 7001)
    assert config.addresses.find("agent", found.home) == TcpAddress("agent", 7001)
    assert config.addresses.find("gateway", found.home) == UnixAddress(found.home.socket)
    assert config.database.url_of("agent", found.home).endswith("@db/hermes_agent")
    assert config.instance == "agent-0"
    assert config.tls.files is not None
    assert config.tls.files.certificate == Path.home() / "tls.crt"
    assert "secret-word" not in repr(config)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    yaml = "services:\n  listen: nowhere\n  tls: {ca: /a}\n  metrics:\n    port: 70000\n"
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, yaml).load(ServiceConfig)
    config = tmp_path / "config.yaml"
    address = "'nowhere' is not an address; write host:port or unix:/path/to/socket"
    assert str(caught.value).splitlines() == [
        f"services.metrics.port ({config}, line 5): must be less than or equal to 65535, not 70000",
        "configuration: services.tls needs all of ca, certificate and key, or none of them",
        f"services.listen ({config}, line 2): {address}",
    ]


class Login(RedactedRepr, frozen=True):
    unshown = ("password",)

    name: str
    password: str = ""


def test_what_is_not_to_be_seen_is_not_shown_and_is_there() -> None:
    login = Login("ann", "hunter2")
    assert repr(login) == "Login(name='ann')"
    assert f"{[login]}" == "[Login(name='ann')]"
    assert login.password == "hunter2"
    assert login != Login("ann")
