"""Settings of logs and traces."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from services.config.settings import ConfigModel, Flag, Yaml, section


@section("services.log", variables="HERMES_LOG_")
class LogConfig(ConfigModel):
    """What is logged, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Flag("log_level")] = "info"
    """The minimum severity of log lines."""
    format: Annotated[Literal["json", "text"], Flag("log_format")] = "json"
    """`json` is one object a line for machines, `text` is for reading on a terminal."""
    max_file_bytes: Annotated[int, Field(ge=65_536)] = 10_000_000
    """Size in bytes at which the log file is rotated."""
    kept_files: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of rotated log files to keep."""


@section("services.tracing", variables="HERMES_TRACING_")
class TracingConfig(ConfigModel):
    """Where traces of the work go."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """The URL of an OTLP receiver that speaks gRPC, such as `http://127.0.0.1:4317`; `https` is
    encrypted; empty traces nothing."""
    headers: Annotated[SecretStr | None, Yaml("services.tracing.headers")] = None
    """Headers for the receiver, such as a key, as `name=value,name=value`."""
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The part of all traces that is kept, from 0 to 1."""
    text: bool = False
    """Whether traces contain messages of people and models, without secrets."""
