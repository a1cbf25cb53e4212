"""The executor's settings."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from executor_service.records.network_policy import Rule
from services.config.settings import ConfigModel, Env, Flag, HomePolicy, Yaml, section
from services.rpc.public_addresses import address_of, ranges

_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_HOUR_S = 3600
_SSH_PORT = 22


def _rule(text: str) -> str:
    Rule.parse(text)
    return text


def _range(text: str) -> str:
    ranges([text])
    return text


def _secret_hosts(text: str) -> str:
    rule = Rule.parse(text)
    if address_of(rule.host.removeprefix("*.")) is not None:
        raise ValueError(f"{text}: a secret belongs to hosts with names")
    return text


SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
HostRule = Annotated[str, AfterValidator(_rule)]
NetworkModeName = Literal["none", "allow_list", "open"]


def _plain_word(given: object) -> object:
    return given.strip().lower() if isinstance(given, str) else given


BackendName = Annotated[
    Literal["", "docker", "bubblewrap", "singularity", "modal", "kubernetes", "ssh", "local"],
    BeforeValidator(_plain_word),
]


@section("executor.network")
class NetworkConfig(ConfigModel):
    """What commands in sandboxes may reach where a caller does not say so."""

    mode: Annotated[NetworkModeName, Env("HERMES_NETWORK_MODE")] = "none"
    """`none`, `allow_list` for the hosts below, or `open` for every public address."""
    hosts: tuple[HostRule, ...] = ()
    """Hosts of the allow list: `example.com`, `*.example.com`, with other ports than 80 and 443
    `example.com:22,8443`."""
    secrets: tuple[SecretName, ...] = ()
    """Names of secrets, from `executor.secrets`, that commands may ask for."""
    refused: tuple[Annotated[str, AfterValidator(_range)], ...] = ()
    """Address ranges that are never reached, beside those that are not public: `203.0.113.0/24`."""

    @field_validator("hosts")
    @classmethod
    def _are_of_a_list(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if hosts and info.data.get("mode") != "allow_list":
            raise ValueError("hosts are for the mode allow_list")
        return hosts


class SecretConfig(ConfigModel):
    """A secret that commands use without seeing it."""

    file: str
    """File with the value, which only the executor needs to be able to read."""
    hosts: Annotated[tuple[Annotated[str, AfterValidator(_secret_hosts)], ...], Field(min_length=1)]
    """Hosts that it belongs to, by TLS at port 443 unless they name another."""


@section("executor.docker", variables="HERMES_DOCKER_")
class DockerConfig(ConfigModel):
    """Which Docker engine makes boxes, and of what."""

    image: Annotated[str, Yaml("terminal.docker_image")] = "hermes-sandbox:latest"
    """Image of the boxes; it needs Python 3.8 or newer."""
    host: Annotated[str, Env("DOCKER_HOST")] = "unix:///var/run/docker.sock"
    """Address of the engine: unix://, tcp:// or ssh://."""
    runtime: str = ""
    """OCI runtime, such as `runsc` for gVisor; empty is the engine's default."""
    ca: str = ""
    """File with the certificate of the authority that signed the engine's, for tcp://."""
    certificate: str = ""
    """File with the client certificate for the engine."""
    key: str = ""
    """File with the private key of that certificate."""


@section("executor.kubernetes", variables="HERMES_KUBERNETES_")
class KubernetesConfig(ConfigModel):
    """Which Kubernetes cluster makes boxes, and where in it."""

    kubeconfig: str = ""
    """File that says where the API server is; unset is the cluster that the executor runs in."""
    context: str = ""
    """Context in that file; unset is the file's current one."""
    namespace: str = "hermes-sandboxes"
    """Namespace of the sandboxes; nothing else may run in it."""
    release: str = "hermes-sandboxes"
    """Name of the ConfigMap that owns the sandboxes; created if missing. Deleting it ends them."""
    image: str = "hermes-sandbox:latest"
    """Image of the sandboxes, as the nodes pull it; it needs Python 3.8 or newer."""
    pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the namespace with which the nodes pull the image."""
    runtime_class: str = ""
    """RuntimeClass of the sandboxes, such as `gvisor`; unset is the nodes' own."""
    isolation: Literal["namespace", "userspace_kernel", "microvm"] = "namespace"
    """Isolation of that runtime, which Hermes cannot detect: `userspace_kernel` for gVisor,
    `microvm` for Kata Containers."""
    host_users: bool = True
    """`false` gives each sandbox a user namespace of its own, which nodes must support."""
    node_limits_pids: bool = False
    """Whether nodes limit a pod's processes (`podPidsLimit`), which Hermes cannot detect."""
    seccomp_profile: str = ""
    """File below the nodes' seccomp folder; unset is the runtime's default profile."""
    node_selector: dict[str, str] = Field(default_factory=dict[str, str])
    """Labels of the nodes that may run sandboxes."""
    tolerations: tuple[dict[str, str | int], ...] = ()
    """Taints of nodes that sandboxes tolerate, as a pod has them."""
    workspace_claim: str = ""
    """PersistentVolumeClaim in which each workspace is a folder; unset lets workspaces end with
    their sandboxes."""
    priority_class: str = ""
    """PriorityClass of the sandboxes, lower than that of everything else; unset is the default."""
    cpu_request: Annotated[float | None, Field(gt=0)] = None
    """Processors' worth of time that a node sets aside for a sandbox; unset is its limit."""
    schedule_timeout_s: Annotated[float, Field(ge=1, le=3600)] = 8.0
    """Seconds that a pod may wait for a node with room; more where nodes are added on demand."""
    start_timeout_s: Annotated[float, Field(ge=1, le=3600)] = 120.0
    """Seconds that a pod may take to be scheduled, pull its image and start."""


@section("executor.ssh", variables="HERMES_SSH_")
class SshConfig(ConfigModel):
    """Which account of which machine runs commands for the backend `ssh`."""

    host: Annotated[str, Yaml("executor.ssh.host", "terminal.ssh_host")] = ""
    """Name or address of the machine."""
    port: Annotated[int, Field(ge=1, le=65_535), Yaml("executor.ssh.port", "terminal.ssh_port")] = (
        _SSH_PORT
    )
    """Port of its SSH server."""
    user: Annotated[str, Yaml("executor.ssh.user", "terminal.ssh_user")] = ""
    """Account there; unset is the name of the user who runs the executor."""
    key: Annotated[str, Yaml("executor.ssh.key", "terminal.ssh_key")] = ""
    """File with the private key; its certificate, if it has one, lies beside it in `…-cert.pub`.
    Unset takes what the SSH agent has, and the keys in `~/.ssh`."""
    known_hosts: str = "~/.ssh/known_hosts"
    """File with the machine's host key."""
    fingerprint: str = ""
    """The machine's host key as `SHA256:…`, instead of a file."""
    folder: str = "~/.hermes-executor"
    """Folder there for the supervisor, the boxes' records and the workspaces."""

    @property
    def name(self) -> str:
        """The machine for messages."""
        return self.host if self.port == _SSH_PORT else f"{self.host}:{self.port}"

    @property
    def known_name(self) -> str:
        """The machine as known_hosts has it."""
        return self.host if self.port == _SSH_PORT else f"[{self.host}]:{self.port}"


@section("executor.modal", variables="HERMES_MODAL_")
class ModalConfig(ConfigModel):
    """Which account of Modal runs the sandboxes, and of what they are made."""

    token_id: Annotated[SecretStr, Env("MODAL_TOKEN_ID")] = SecretStr("")
    """Id of the token that Modal takes; made at modal.com/settings/tokens."""
    token_secret: Annotated[SecretStr, Env("MODAL_TOKEN_SECRET")] = SecretStr("")
    """Secret of that token."""
    app: str = "hermes-sandboxes"
    """App of the sandboxes; created if it does not exist."""
    environment: str = ""
    """Environment of the account; empty is its default."""
    image: Annotated[str, Yaml("executor.modal.image", "terminal.modal_image")] = ""
    """A registry's image, or the id of one of Modal's (`im-…`), with Python 3.8 or newer; empty is
    Debian with Python, git and a few tools."""
    region: str = ""
    """Region of the sandboxes, such as `eu`; if empty, Modal chooses."""
    server_url: str = "https://api.modal.com"
    """Where Modal's API listens."""


@section("executor.singularity", variables="HERMES_SINGULARITY_")
class SingularityConfig(ConfigModel):
    """Which Apptainer or Singularity makes boxes, and of what."""

    image: Annotated[str, Yaml("executor.singularity.image", "terminal.singularity_image")] = ""
    """Whole path of a SIF file, or of a folder with a root file system; it needs Python 3.8 or
    newer."""
    program: str = ""
    """Name or path of the program; unset is `apptainer`, else `singularity`."""


@section("executor")
class BoxConfig(ConfigModel):
    """What one sandbox may use."""

    memory_bytes: Annotated[int, Field(ge=256 * _MIB)] = 2 * _GIB
    """Memory of a sandbox in bytes, its files in /tmp included."""
    cpu_count: Annotated[float | None, Field(gt=0)] = None
    """Processors' worth of time of a sandbox; unset is a fair share."""
    pids: Annotated[int, Field(ge=16, le=32_768)] = 256
    """Processes and threads of a sandbox."""
    tmp_bytes: Annotated[int, Field(ge=_MIB)] = 512 * _MIB
    """Size of a sandbox's /tmp in bytes, which is memory: at most a quarter of
    `executor.memory_bytes`."""
    workspace_bytes: Annotated[int, Field(ge=_MIB)] = 10 * _GIB
    """Size of a session's workspace in bytes."""


class TemplateConfig(ConfigModel):
    """How one kind of sandbox differs from the usual one; what is unset is as there."""

    backend: BackendName = ""
    """Name of the backend; unset is that of the usual sandboxes."""
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What differs from the settings of that backend, by their names below `executor.<backend>`."""
    memory_bytes: Annotated[int | None, Field(ge=256 * _MIB)] = None
    """Memory of a sandbox in bytes."""
    cpu_count: Annotated[float | None, Field(gt=0)] = None
    """Processors' worth of time of a sandbox."""
    pids: Annotated[int | None, Field(ge=16, le=32_768)] = None
    """Processes and threads of a sandbox."""
    tmp_bytes: Annotated[int | None, Field(ge=_MIB)] = None
    """Size of a sandbox's /tmp in bytes."""
    workspace_bytes: Annotated[int | None, Field(ge=_MIB)] = None
    """Size of a workspace in bytes."""
    warm_pool_size: Annotated[int | None, Field(ge=0, le=1000)] = None
    """Sandboxes of this kind that are kept ready; unset is none."""
    max_sandboxes: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """Sandboxes of this kind in all, ready ones included."""
    network_mode: NetworkModeName | None = None
    """What commands may reach: `none`, `allow_list` or `open`."""
    network_hosts: tuple[HostRule, ...] = ()
    """Hosts of the allow list."""
    network_secrets: tuple[SecretName, ...] | None = None
    """Names of secrets that commands may ask for."""

    @model_validator(mode="after")
    def _settings_are_of_a_backend(self) -> Self:
        if self.settings and not self.backend:
            raise ValueError("settings need to know of which backend: set `backend` as well")
        if self.network_hosts and self.network_mode != "allow_list":
            raise ValueError("network_hosts are for the network_mode allow_list")
        return self


@section("executor.workspaces", variables="HERMES_WORKSPACES_")
class WorkspacesConfig(ConfigModel):
    """How long workspaces and snapshots are kept, and how much of them."""

    retention_days: Annotated[float, Field(ge=0)] = 0.0
    """Days without use after which a workspace or snapshot is removed; 0 keeps them."""
    total_bytes: Annotated[int, Field(ge=0)] = 0
    """Size of all workspaces and snapshots of a profile together in bytes, from which on no new one
    is made; 0 is no limit."""
    shared: bool = False
    """Whether all executors have the same workspaces, on a file system of theirs or where the
    backend keeps them; then none is removed unless somebody asks."""

    @model_validator(mode="after")
    def _nobody_removes_what_is_shared(self) -> Self:
        if self.shared and self.retention_days:
            raise ValueError("retention_days cannot be: one executor knows not what others use")
        return self


TemplateName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


@section("executor")
class ExecutorConfig(ConfigModel):
    """How sandboxes are made, kept and ended."""

    home: HomePolicy
    docker: DockerConfig
    modal: ModalConfig
    kubernetes: KubernetesConfig
    ssh: SshConfig
    singularity: SingularityConfig
    box: BoxConfig
    network: NetworkConfig
    workspaces: WorkspacesConfig
    backend: Annotated[
        BackendName,
        Yaml("executor.backend", "terminal.backend"),
        Env("HERMES_BACKEND"),
        Flag("backend"),
    ] = ""
    """Name of the backend; unset takes docker if an engine answers and has the image, else
    bubblewrap."""
    warm_pool_size: Annotated[
        int, Field(ge=0, le=1000), Env("HERMES_WARM_POOL_SIZE"), Flag("warm_pool_size")
    ] = 1
    """Sandboxes that are kept ready for sessions that have none."""
    prefill: Annotated[bool, Env("HERMES_PREFILL"), Flag("prefill")] = True
    """Whether sandboxes are made ready before the first one is asked for."""
    max_sandboxes: Annotated[int, Field(ge=1, le=10_000), Env("HERMES_MAX_SANDBOXES")] = 32
    """Sandboxes of each template, ready ones included; a template may have a limit of its own."""
    idle_timeout_s: Annotated[float, Field(ge=1)] = 30 * 60.0
    """Seconds without a call and without a running command after which a sandbox ends."""
    max_age_s: Annotated[float, Field(ge=1)] = 24.0 * _HOUR_S
    """Seconds after which a sandbox ends in any case."""
    spool_bytes: Annotated[int, Field(ge=64 * _MIB)] = 4 * _GIB
    """Output of commands that is kept on disk, in bytes; of one command it is 32 MiB."""
    allow_workdir: Annotated[bool, Env("HERMES_ALLOW_WORKDIR"), Flag("allow_workdir")] = False
    """Whether a caller may have a folder of this machine bound as the workspace."""
    keep_on_exit: Annotated[bool, Env("HERMES_KEEP_SANDBOXES"), Flag("keep_on_exit")] = True
    """Whether sandboxes in which nothing runs outlive a stop of the executor."""
    orphan_timeout_s: Annotated[float, Field(ge=1, le=86_400)] = 1800.0
    """Seconds without an executor after which a sandbox ends, and all that runs in it; an executor
    waits as long for a Kubernetes API server that does not answer."""
    endpoint: Annotated[str, Env("HERMES_EXECUTOR_ENDPOINT")] = ""
    """Address at which this executor alone is reached, where there are several."""
    secrets: dict[SecretName, SecretConfig] = Field(default_factory=dict[str, SecretConfig])
    """Secrets that the executor puts into requests, by the variables that commands know them by."""
    templates: dict[TemplateName, TemplateConfig] = Field(default_factory=dict[str, TemplateConfig])
    """Further kinds of sandbox by their names; `default` changes the usual ones."""

    @model_validator(mode="after")
    def _secrets_are_known(self) -> Self:
        asked = {"executor.network.secrets": self.network.secrets}
        for name, template in self.templates.items():
            asked[f"executor.templates.{name}.network_secrets"] = template.network_secrets or ()
        for setting, names in asked.items():
            if unknown := set(names) - self.secrets.keys():
                raise ValueError(f"{setting}: executor.secrets has no {', '.join(sorted(unknown))}")
        return self

    @field_validator("templates")
    @classmethod
    def _settings_are_known(
        cls, templates: dict[str, TemplateConfig], info: ValidationInfo
    ) -> dict[str, TemplateConfig]:
        for name, template in templates.items():
            try:
                _with_settings(info.data.get(template.backend), template)
            except ValidationError as error:
                wrong = error.errors()[0]
                key = ".".join(map(str, (name, "settings", *wrong["loc"])))
                raise ValueError(f"{key}: {wrong['msg']}") from None
        return templates

    def for_template(self, template: TemplateConfig) -> Self:
        """These settings as sandboxes of a template have them."""
        if not template.settings:
            return self
        changed = _with_settings(getattr(self, template.backend), template)
        return self.model_copy(update={template.backend: changed})


def _with_settings(section: object, template: TemplateConfig) -> object:
    if not template.settings:
        return section
    if not isinstance(section, ConfigModel):
        raise ValueError(f"there are no settings executor.{template.backend}")  # noqa: TRY004
    return type(section).model_validate({**dict(section), **template.settings})


MODELS: tuple[type[ConfigModel], ...] = (ExecutorConfig,)
"""What `hermes config` shows of this service."""
