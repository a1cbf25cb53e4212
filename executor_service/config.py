"""The executor's settings."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from executor_service.config_network import (
    HostRule,
    NetworkConfig,
    NetworkModeName,
    SecretConfig,
    SecretName,
)
from services.config import ConfigModel, Env, Flag, HomePolicy, Yaml

_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_HOUR_S = 3600
_SSH_PORT = 22


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


class KubernetesConfig(ConfigModel):
    """Which Kubernetes cluster makes boxes, and where in it."""

    kubeconfig: Annotated[
        str, Yaml("executor.kubernetes.kubeconfig"), Env("HERMES_KUBERNETES_KUBECONFIG")
    ] = ""
    """File that says where the API server is; unset is the cluster that the executor runs in."""
    context: Annotated[
        str, Yaml("executor.kubernetes.context"), Env("HERMES_KUBERNETES_CONTEXT")
    ] = ""
    """Context in that file; unset is the file's current one."""
    namespace: Annotated[
        str, Yaml("executor.kubernetes.namespace"), Env("HERMES_KUBERNETES_NAMESPACE")
    ] = "hermes-sandboxes"
    """Namespace of the sandboxes, in which nothing else is."""
    release: Annotated[
        str, Yaml("executor.kubernetes.release"), Env("HERMES_KUBERNETES_RELEASE")
    ] = "hermes-sandboxes"
    """Name of the ConfigMap that owns the sandboxes, made if there is none; with it they go."""
    image: Annotated[str, Yaml("executor.kubernetes.image"), Env("HERMES_KUBERNETES_IMAGE")] = (
        "hermes-sandbox:latest"
    )
    """Image of the sandboxes, as the nodes pull it; it needs Python 3.8 or newer."""
    pull_secrets: Annotated[tuple[str, ...], Yaml("executor.kubernetes.pull_secrets")] = ()
    """Names of Secrets in the namespace with which the nodes pull the image."""
    runtime_class: Annotated[
        str, Yaml("executor.kubernetes.runtime_class"), Env("HERMES_KUBERNETES_RUNTIME_CLASS")
    ] = ""
    """RuntimeClass of the sandboxes, such as `gvisor`; unset is the nodes' own."""
    isolation: Annotated[
        Literal["namespace", "userspace_kernel", "microvm"], Yaml("executor.kubernetes.isolation")
    ] = "namespace"
    """What that runtime is, which only you can know: `userspace_kernel` for gVisor, `microvm` for
    Kata Containers."""
    host_users: Annotated[bool, Yaml("executor.kubernetes.host_users")] = True
    """`false` gives each sandbox a user namespace of its own, which nodes must support."""
    node_limits_pids: Annotated[bool, Yaml("executor.kubernetes.node_limits_pids")] = False
    """Whether the nodes limit the processes of a pod (`podPidsLimit`), which only you can know."""
    seccomp_profile: Annotated[str, Yaml("executor.kubernetes.seccomp_profile")] = ""
    """File below the nodes' seccomp folder; unset is the runtime's default profile."""
    node_selector: Annotated[dict[str, str], Yaml("executor.kubernetes.node_selector")] = Field(
        default_factory=dict[str, str]
    )
    """Labels of the nodes that may run sandboxes."""
    tolerations: Annotated[
        tuple[dict[str, str | int], ...], Yaml("executor.kubernetes.tolerations")
    ] = ()
    """Taints of nodes that sandboxes tolerate, as a pod has them."""
    workspace_claim: Annotated[
        str, Yaml("executor.kubernetes.workspace_claim"), Env("HERMES_KUBERNETES_WORKSPACE_CLAIM")
    ] = ""
    """PersistentVolumeClaim in which each workspace is a folder; unset lets workspaces end with
    their sandboxes."""
    start_timeout_s: Annotated[
        float, Field(ge=1, le=3600), Yaml("executor.kubernetes.start_timeout_s")
    ] = 120.0
    """Seconds that a pod may take to be scheduled, pull its image and start."""


class SshConfig(ConfigModel):
    """Which account of which machine runs commands for the backend `ssh`."""

    host: Annotated[str, Yaml("executor.ssh.host", "terminal.ssh_host"), Env("HERMES_SSH_HOST")] = (
        ""
    )
    """Name or address of the machine."""
    port: Annotated[
        int,
        Field(ge=1, le=65_535),
        Yaml("executor.ssh.port", "terminal.ssh_port"),
        Env("HERMES_SSH_PORT"),
    ] = _SSH_PORT
    """Port of its SSH server."""
    user: Annotated[str, Yaml("executor.ssh.user", "terminal.ssh_user"), Env("HERMES_SSH_USER")] = (
        ""
    )
    """Account there; unset is the name of the user who runs the executor."""
    key: Annotated[str, Yaml("executor.ssh.key", "terminal.ssh_key"), Env("HERMES_SSH_KEY")] = ""
    """File with the private key; its certificate, if it has one, lies beside it in `…-cert.pub`.
    Unset takes what the SSH agent has, and the keys in `~/.ssh`."""
    known_hosts: Annotated[str, Yaml("executor.ssh.known_hosts"), Env("HERMES_SSH_KNOWN_HOSTS")] = (
        "~/.ssh/known_hosts"
    )
    """File in which the machine's host key stands."""
    fingerprint: Annotated[str, Yaml("executor.ssh.fingerprint"), Env("HERMES_SSH_FINGERPRINT")] = (
        ""
    )
    """The machine's host key as `SHA256:…`, instead of a file."""
    folder: Annotated[str, Yaml("executor.ssh.folder"), Env("HERMES_SSH_FOLDER")] = (
        "~/.hermes-executor"
    )
    """Folder there for the supervisor, the boxes' records and the workspaces."""

    @property
    def name(self) -> str:
        """The machine for messages."""
        return self.host if self.port == _SSH_PORT else f"{self.host}:{self.port}"

    @property
    def known_name(self) -> str:
        """The machine as known_hosts has it."""
        return self.host if self.port == _SSH_PORT else f"[{self.host}]:{self.port}"


class ModalConfig(ConfigModel):
    """Which account of Modal runs the sandboxes, and of what they are made."""

    token_id: Annotated[SecretStr, Env("MODAL_TOKEN_ID")] = SecretStr("")
    """Id of the token that Modal takes; made at modal.com/settings/tokens."""
    token_secret: Annotated[SecretStr, Env("MODAL_TOKEN_SECRET")] = SecretStr("")
    """Secret of that token."""
    app: Annotated[str, Yaml("executor.modal.app"), Env("HERMES_MODAL_APP")] = "hermes-sandboxes"
    """App that the sandboxes belong to; made if it is not there."""
    environment: Annotated[
        str, Yaml("executor.modal.environment"), Env("HERMES_MODAL_ENVIRONMENT")
    ] = ""
    """Environment of the account; empty is its default."""
    image: Annotated[
        str, Yaml("executor.modal.image", "terminal.modal_image"), Env("HERMES_MODAL_IMAGE")
    ] = ""
    """A registry's image, or the id of one of Modal's (`im-…`), with Python 3.8 or newer; empty is
    Debian with Python, git and a few tools."""
    region: Annotated[str, Yaml("executor.modal.region"), Env("HERMES_MODAL_REGION")] = ""
    """Where sandboxes run, such as `eu`; empty leaves it to Modal."""
    server_url: Annotated[
        str, Yaml("executor.modal.server_url"), Env("HERMES_MODAL_SERVER_URL")
    ] = "https://api.modal.com"
    """Where Modal's API listens."""


class SingularityConfig(ConfigModel):
    """Which Apptainer or Singularity makes boxes, and of what."""

    image: Annotated[
        str,
        Yaml("executor.singularity.image", "terminal.singularity_image"),
        Env("HERMES_SINGULARITY_IMAGE"),
    ] = ""
    """Whole path of a SIF file, or of a folder with a root file system; it needs Python 3.8 or
    newer."""
    program: Annotated[
        str, Yaml("executor.singularity.program"), Env("HERMES_SINGULARITY_PROGRAM")
    ] = ""
    """Name or path of the program; unset is `apptainer`, else `singularity`."""


class BoxConfig(ConfigModel):
    """What one sandbox may use."""

    memory_bytes: Annotated[int, Field(ge=256 * _MIB), Yaml("executor.memory_bytes")] = 2 * _GIB
    """Memory of a sandbox in bytes, its files in /tmp included."""
    cpu_count: Annotated[float | None, Field(gt=0), Yaml("executor.cpu_count")] = None
    """Processors' worth of time of a sandbox; unset is a fair share."""
    pids: Annotated[int, Field(ge=16, le=32_768), Yaml("executor.pids")] = 256
    """Processes and threads of a sandbox."""
    tmp_bytes: Annotated[int, Field(ge=_MIB), Yaml("executor.tmp_bytes")] = 512 * _MIB
    """Size of a sandbox's /tmp in bytes, which is memory: at most a quarter of
    `executor.memory_bytes`."""
    workspace_bytes: Annotated[int, Field(ge=_MIB), Yaml("executor.workspace_bytes")] = 10 * _GIB
    """Size of a session's workspace in bytes."""


class TemplateConfig(ConfigModel):
    """How one kind of sandbox differs from the usual one; what is unset is as there."""

    backend: str = ""
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


DEFAULT_TEMPLATE = "default"
"""The usual sandboxes; they are there whether or not they are among the templates."""


class WorkspacesConfig(ConfigModel):
    """How long workspaces and snapshots are kept, and how much of them."""

    retention_days: Annotated[
        float,
        Field(ge=0),
        Yaml("executor.workspaces.retention_days"),
        Env("HERMES_WORKSPACE_RETENTION_DAYS"),
    ] = 0.0
    """Days without use after which a workspace or snapshot is removed; 0 keeps them."""
    total_bytes: Annotated[
        int,
        Field(ge=0),
        Yaml("executor.workspaces.total_bytes"),
        Env("HERMES_WORKSPACE_TOTAL_BYTES"),
    ] = 0
    """Size of all workspaces and snapshots of a profile together in bytes, from which on no new one
    is made; 0 is no limit."""
    shared: Annotated[bool, Yaml("executor.workspaces.shared"), Env("HERMES_WORKSPACES_SHARED")] = (
        False
    )
    """Whether all executors have the same workspaces, on a file system of theirs or where the
    backend keeps them; then none is removed unless somebody asks."""

    @model_validator(mode="after")
    def _nobody_removes_what_is_shared(self) -> Self:
        if self.shared and self.retention_days:
            raise ValueError("retention_days cannot be: one executor knows not what others use")
        return self


TemplateName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


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
        str, Yaml("executor.backend", "terminal.backend"), Env("HERMES_BACKEND"), Flag("backend")
    ] = ""
    """Name of the backend; unset takes docker if an engine answers and has the image, else
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
    """Whether sandboxes in which nothing runs outlive a stop of the executor."""
    orphan_timeout_s: Annotated[
        float, Field(ge=1, le=86_400), Yaml("executor.orphan_timeout_s")
    ] = 1800.0
    """Seconds without an executor after which a sandbox ends, and all that runs in it."""
    endpoint: Annotated[str, Yaml("executor.endpoint"), Env("HERMES_EXECUTOR_ENDPOINT")] = ""
    """Address at which this executor alone is reached, where there are several."""
    secrets: Annotated[dict[SecretName, SecretConfig], Yaml("executor.secrets")] = Field(
        default_factory=dict[str, SecretConfig]
    )
    """Secrets that the executor puts into requests, by the variables that commands know them by."""
    templates: Annotated[dict[TemplateName, TemplateConfig], Yaml("executor.templates")] = Field(
        default_factory=dict[str, TemplateConfig]
    )
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
