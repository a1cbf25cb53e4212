"""The settings that every service has."""

from pathlib import Path

import pytest

from services.config.settings import ConfigError
from services.rpc.addresses import TcpAddress, UnixAddress
from services.runtime.config import ServiceConfig
from tests.unit.services.settings import settings


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
