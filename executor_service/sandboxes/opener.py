"""Opens a template from the settings: its backend, pool, orphan reaper and network."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends import AUTOMATIC, BACKENDS, Site
from executor_service.backends.base import (
    Box,
    Capabilities,
    Enforcement,
    Limits,
    WorkspacePlace,
    store_elsewhere,
)
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import BoxConfig, ExecutorConfig, NetworkConfig, TemplateConfig
from executor_service.errors import BackendUnavailable
from executor_service.execs.exec_registry import ExecRegistry, Stores
from executor_service.network.gate import Gate
from executor_service.network.network import Networks
from executor_service.network.secrets import Secret
from executor_service.records.network_policy import NetworkMode, NetworkPolicy, Rule
from executor_service.records.sandboxes import DEFAULT_TEMPLATE
from executor_service.sandboxes.orphan_reaper import OrphanReaper
from executor_service.sandboxes.pool import Pool, PoolOptions
from executor_service.sandboxes.templates import Choice, Template, choose
from executor_service.workspaces.catalog import Catalog
from executor_service.workspaces.folders import Workspaces
from services.lifecycle import Workers


class TemplateResources(Struct, frozen=True):
    """What all templates of an executor share."""

    owner: str
    folder: Path
    """Where backends keep their own records."""
    workspaces: Workspaces
    catalog: Catalog
    stores: Stores
    gate: Gate
    workers: Workers


class TemplateMaker:
    """Opens templates."""

    def __init__(self, config: ExecutorConfig, resources: TemplateResources) -> None:
        self._config = config
        self._resources = resources
        self._usual_backend = config.backend
        self._supervisor = b""
        self._first_of: dict[str, str] = {}
        """By backend, the template that owns the boxes of removed templates."""

    @property
    def names(self) -> Sequence[str]:
        return list(self._config.templates)

    async def supervisor(self) -> bytes:
        """The program that runs in every box and works on workspaces."""
        self._supervisor = self._supervisor or await asyncio.to_thread(build_zipapp)
        return self._supervisor

    def make_registry(self, sandbox_id: str, backend: str) -> ExecRegistry:
        return ExecRegistry(sandbox_id, backend, self._resources.stores)

    async def open(self, name: str) -> Template:
        """Opens a template; fails with BackendUnavailable."""
        wanted = self._config.templates.get(name, TemplateConfig())
        choice = await self._choose(name, wanted)
        if name == DEFAULT_TEMPLATE:
            self._usual_backend = choice.capabilities.name
        network = _network(self._config.network, wanted)
        if not choice.capabilities.holds(network.mode):
            await choice.backend.close()
            raise BackendUnavailable(
                f"{choice.capabilities.name} cannot enforce the network {network.mode} of template "
                f"{name}: leave that setting out, or choose another backend"
            )
        options = self._options(name, wanted, choice.capabilities)
        resources, backend = self._resources, choice.backend
        make_registry = partial(self.make_registry, backend=choice.capabilities.name)
        metrics = resources.stores.metrics
        pool = Pool(
            backend, options, resources.workspaces, make_registry, resources.workers, metrics
        )
        is_ours = self._finds(name, choice.capabilities.name)
        reaper = OrphanReaper(
            backend, resources.workspaces, resources.catalog, is_ours, pool.boxes.keys, metrics
        )
        secrets = _secrets(self._config, wanted)
        networks = Networks(resources.gate, metrics.egress, resources.workers, secrets)
        return Template(name, choice, options.limits, pool, reaper, networks, network)

    async def _choose(self, name: str, wanted: TemplateConfig) -> Choice:
        config = self._config.for_template(wanted)
        shared, supervisor = self._resources, await self.supervisor()
        site = Site(shared.owner, shared.folder, supervisor, config, shared.workspaces.folder)
        backends = {backend: partial(make, site) for backend, make in BACKENDS.items()}
        setting = f"executor.templates.{name}.backend" if wanted.backend else "terminal.backend"
        choice = await choose(wanted.backend or self._usual_backend, backends, AUTOMATIC, setting)
        found = replace(choice.capabilities, copies_workspaces=_copies(choice))
        return replace(choice, capabilities=_with_watch(found))

    def _options(self, name: str, wanted: TemplateConfig, found: Capabilities) -> PoolOptions:
        config = self._config
        usual_warm = config.warm_pool_size if name == DEFAULT_TEMPLATE else 0
        return PoolOptions(
            owner=self._resources.owner,
            backend=found.name,
            template=name,
            limits=_limits(config.box, wanted),
            warm=usual_warm if wanted.warm_pool_size is None else wanted.warm_pool_size,
            most=wanted.max_sandboxes or config.max_sandboxes,
            prefill=config.prefill,
            orphan_timeout_s=config.orphan_timeout_s,
            box_secret=self._resources.stores.journal.box_secret,
        )

    def _finds(self, name: str, backend: str) -> Callable[[Box], bool]:
        """Tells whether a box is the template's; the first also gets those of removed templates."""
        known = {DEFAULT_TEMPLATE, *self._config.templates}
        is_first = self._first_of.setdefault(backend, name) == name
        return lambda box: box.pool == name or (is_first and box.pool not in known)


def _copies(choice: Choice) -> bool:
    is_here = choice.capabilities.workspaces is WorkspacePlace.HERE
    return is_here or store_elsewhere(choice.backend) is not None


def _network(usual: NetworkConfig, wanted: TemplateConfig) -> NetworkPolicy:
    if wanted.network_mode is None:
        mode, hosts = usual.mode, usual.hosts
    else:
        mode, hosts = wanted.network_mode, wanted.network_hosts
    return NetworkPolicy(NetworkMode(mode), tuple(map(Rule.parse, hosts)))


def _secrets(config: ExecutorConfig, wanted: TemplateConfig) -> tuple[Secret, ...]:
    """The secrets that a template's commands may use, for TLS ports only."""
    names = wanted.network_secrets
    if names is None:
        names = config.network.secrets
    found = ((name, config.secrets[name]) for name in names)
    return tuple(
        Secret(name, Path(secret.file), tuple(map(_for_tls, secret.hosts)))
        for name, secret in found
    )


def _for_tls(text: str) -> Rule:
    rule = Rule.parse(text)
    return replace(rule, ports=rule.ports or (443,))


def _limits(usual: BoxConfig, wanted: TemplateConfig) -> Limits:
    found = {name: getattr(wanted, name) or getattr(usual, name) for name in BoxConfig.model_fields}
    # Files in /tmp count as memory. A full /tmp must leave enough for commands to run.
    tmp_bytes = min(found["tmp_bytes"], found["memory_bytes"] // 4)
    return Limits(**{**found, "tmp_bytes": tmp_bytes})


def _with_watch(found: Capabilities) -> Capabilities:
    """Adds a watched workspace limit if the executor can measure workspaces."""
    held = found.limits.workspace is not Enforcement.NONE
    if held or not (found.workspaces is WorkspacePlace.HERE or found.measures_workspaces):
        return found
    return replace(found, limits=replace(found.limits, workspace=Enforcement.WATCHED))
