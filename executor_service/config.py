"""The executor's settings."""

from typing import Annotated

from pydantic import Field

from services.config import ConfigModel, Env, Flag, Yaml

_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_HOUR_S = 3600


class DockerConfig(ConfigModel):
    """Which Docker engine makes boxes, and of what."""

    image: Annotated[str, Yaml("terminal.docker_image"), Env("HERMES_DOCKER_IMAGE")] = (
        "hermes-sandbox:latest"
    )
    """Image of the boxes; it needs Python 3.8 or newer."""
    host: Annotated[str, Yaml("executor.docker.host"), Env("DOCKER_HOST")] = (
        "unix:///var/run/docker.sock"
    )
    """Where the engine listens: unix://, tcp:// or ssh://."""
    runtime: Annotated[str, Yaml("executor.docker.runtime"), Env("HERMES_DOCKER_RUNTIME")] = ""
    """OCI runtime, such as `runsc` for gVisor; empty is the engine's default."""
    ca: Annotated[str, Yaml("executor.docker.ca"), Env("HERMES_DOCKER_CA")] = ""
    """File with the certificate of the authority that signed the engine's, for tcp://."""
    certificate: Annotated[
        str, Yaml("executor.docker.certificate"), Env("HERMES_DOCKER_CERTIFICATE")
    ] = ""
    """File with the certificate that the engine asks for."""
    key: Annotated[str, Yaml("executor.docker.key"), Env("HERMES_DOCKER_KEY")] = ""
    """File with the private key of that certificate."""


class BoxConfig(ConfigModel):
    """What one sandbox may use."""

    memory_bytes: Annotated[int, Field(ge=256 * _MIB), Yaml("executor.memory_bytes")] = 2 * _GIB
    """Memory of a sandbox in bytes, its files in /tmp included."""
    cpu_count: Annotated[float | None, Field(gt=0), Yaml("executor.cpu_count")] = None
    """Processors' worth of time of a sandbox; unset is a fair share."""
    pids: Annotated[int, Field(ge=16, le=32_768), Yaml("executor.pids")] = 256
    """Processes and threads of a sandbox."""
    tmp_bytes: Annotated[int, Field(ge=_MIB), Yaml("executor.tmp_bytes")] = 512 * _MIB
    """Size of a sandbox's /tmp in bytes, which is memory."""
    workspace_bytes: Annotated[int, Field(ge=_MIB), Yaml("executor.workspace_bytes")] = 10 * _GIB
    """Size of a session's workspace in bytes."""


class ExecutorConfig(ConfigModel):
    """How sandboxes are made, kept and ended."""

    docker: DockerConfig
    box: BoxConfig
    backend: Annotated[
        str, Yaml("executor.backend", "terminal.backend"), Env("HERMES_BACKEND"), Flag("backend")
    ] = ""
    """`docker` or `bubblewrap`; unset takes docker if an engine answers and has the image, else
    bubblewrap."""
    warm_pool_size: Annotated[
        int,
        Field(ge=0, le=1000),
        Yaml("executor.warm_pool_size"),
        Env("HERMES_WARM_POOL_SIZE"),
        Flag("warm_pool_size"),
    ] = 1
    """Sandboxes that are kept ready for sessions that have none."""
    prefill: Annotated[bool, Yaml("executor.prefill"), Env("HERMES_PREFILL"), Flag("prefill")] = (
        True
    )
    """Whether sandboxes are made ready before the first one is asked for."""
    max_sandboxes: Annotated[
        int, Field(ge=1, le=10_000), Yaml("executor.max_sandboxes"), Env("HERMES_MAX_SANDBOXES")
    ] = 32
    """Sandboxes in all, ready ones included."""
    idle_timeout_s: Annotated[float, Field(ge=1), Yaml("executor.idle_timeout_s")] = 30 * 60.0
    """Seconds without a call and without a running command after which a sandbox ends."""
    max_age_s: Annotated[float, Field(ge=1), Yaml("executor.max_age_s")] = 24.0 * _HOUR_S
    """Seconds after which a sandbox ends in any case."""
    spool_bytes: Annotated[int, Field(ge=64 * _MIB), Yaml("executor.spool_bytes")] = 4 * _GIB
    """Output of commands that is kept on disk, in bytes; of one command it is 32 MiB."""
    allow_workdir: Annotated[
        bool, Yaml("executor.allow_workdir"), Env("HERMES_ALLOW_WORKDIR"), Flag("allow_workdir")
    ] = False
    """Whether a caller may have a folder of this machine bound as the workspace."""
    keep_on_exit: Annotated[
        bool, Yaml("executor.keep_on_exit"), Env("HERMES_KEEP_SANDBOXES"), Flag("keep_on_exit")
    ] = True
    """Whether sandboxes in which nothing runs outlive a stop of the executor, for half an hour."""
    endpoint: Annotated[str, Yaml("executor.endpoint"), Env("HERMES_EXECUTOR_ENDPOINT")] = ""
    """Address at which this executor alone is reached, where there are several."""


MODELS: tuple[type[ConfigModel], ...] = (ExecutorConfig,)
"""What `hermes config` shows of this service."""
