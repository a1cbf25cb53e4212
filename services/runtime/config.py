"""The settings that every service has."""

import socket
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, model_validator

from services.config.fields import TypeName
from services.config.settings import ConfigModel, Env, Flag, Yaml, section
from services.errors import InvalidArgument
from services.home.paths import HomePaths
from services.rpc.addresses import Address, UnixAddress, parse_address
from services.rpc.tls import TlsFiles
from services.telemetry.config import LogConfig, TracingConfig


def _address(value: object) -> Address:
    try:
        return parse_address(str(value))
    except InvalidArgument as error:
        raise ValueError(error.message) from None


AddressSetting = Annotated[
    Address, PlainValidator(_address), TypeName("host:port or unix:/path/to/socket")
]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
Port = Annotated[int, Field(ge=0, le=65_535)]


@section("services.metrics", variables="HERMES_METRICS_")
class MetricsConfig(ConfigModel):
    """Where Prometheus reads the metrics."""

    host: str = "127.0.0.1"
    """The address that /metrics is served on."""
    port: Annotated[Port, Flag("metrics_port")] = 9464
    """The TCP port of /metrics; 0 lets the system choose one."""


@section("services.admin", variables="HERMES_ADMIN_")
class AdminConfig(ConfigModel):
    """A port for those who look after a process."""

    port: Port | None = None
    """The TCP port on this machine's loopback address on which gRPC's reflection says what the
    process serves; unset opens none, 0 lets the system choose one."""


@section("services.tls", variables="HERMES_TLS_")
class TlsConfig(ConfigModel):
    """The PEM files with which services prove to each other who they are."""

    ca: Annotated[UserPath | None, Flag("tls_ca")] = None
    """The certificate of the authority that signed all services' certificates."""
    certificate: Annotated[UserPath | None, Flag("tls_certificate")] = None
    """This service's certificate."""
    key: Annotated[UserPath | None, Flag("tls_key")] = None
    """The private key of this service's certificate."""

    @model_validator(mode="after")
    def _all_or_none(self) -> "TlsConfig":
        if len({path is None for path in (self.ca, self.certificate, self.key)}) > 1:
            raise ValueError("services.tls needs all of ca, certificate and key, or none of them")
        return self

    @property
    def files(self) -> TlsFiles | None:
        """The files, or None where services trust the Unix socket's permissions."""
        if self.ca and self.certificate and self.key:
            return TlsFiles(self.ca, self.certificate, self.key)
        return None


@section("services.addresses")
class AddressesConfig(ConfigModel):
    """Where the services are found when they do not run in one process."""

    agent: Annotated[AddressSetting | None, Env("HERMES_AGENT_ADDRESS")] = None
    """The agent service; unset means the socket in the home."""
    executor: Annotated[AddressSetting | None, Env("HERMES_EXECUTOR_ADDRESS")] = None
    """The executor service; unset means the socket in the home."""
    gateway: Annotated[AddressSetting | None, Env("HERMES_GATEWAY_ADDRESS")] = None
    """The gateway service; unset means the socket in the home."""
    scheduler: Annotated[AddressSetting | None, Env("HERMES_SCHEDULER_ADDRESS")] = None
    """The scheduler service; unset means the socket in the home."""

    def find(self, service: str, home: HomePaths) -> Address:
        configured: Address | None = getattr(self, service)
        return configured or UnixAddress(home.socket)


class DatabaseConfig(ConfigModel):
    """Where a service keeps its rows."""

    url: Annotated[SecretStr | None, Yaml("services.database.url"), Env("HERMES_DATABASE_URL")] = (
        None
    )
    """A SQLAlchemy URL, in which `{service}` stands for the service's name; unset means a SQLite
    file in the home."""

    def url_of(self, service: str, home: HomePaths) -> str:
        if self.url is None:
            return f"sqlite:///{home.database(service)}"
        return self.url.get_secret_value().replace("{service}", service)


@section("services", variables="HERMES_")
class ServiceConfig(ConfigModel):
    """What one process of services needs besides the settings of each service."""

    log: LogConfig
    metrics: MetricsConfig
    tracing: TracingConfig
    admin: AdminConfig
    tls: TlsConfig
    addresses: AddressesConfig
    database: DatabaseConfig
    listen: Annotated[AddressSetting | None, Flag("listen")] = None
    """Where gRPC calls are answered; unset means the socket in the home."""
    instance: Annotated[str, Field(min_length=1, max_length=100), Flag("instance")] = Field(
        default_factory=socket.gethostname
    )
    """This process's name among replicas, used in leases; the host's name by default."""


class ChatConfig(ConfigModel):
    """How `hermes chat` begins a session."""

    mount_cwd: Annotated[bool, Yaml("terminal.mount_cwd")] = False
    """Whether each new session of `hermes chat` works in the current folder, as with `--here`."""


MODELS: tuple[type[ConfigModel], ...] = (ServiceConfig, ChatConfig)
"""What the chassis itself can be configured with."""
