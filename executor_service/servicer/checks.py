"""Which backends this machine could use, for `hermes doctor`: tried for real where configured."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Container, Mapping
from pathlib import Path

from msgspec import Struct

from executor_service.backends import AUTOMATIC, BACKENDS, Site
from executor_service.backends.base import Capabilities
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import ExecutorConfig
from services.config.settings import Settings
from services.lifecycle import all_of
from services.runtime.checks import Check, Verdict

PROBE_S = 20.0
"""How long a backend may take to say whether it can be used."""

_OWNER = "doctor"


class BackendAdvice(Struct, frozen=True):
    """How a backend that is not used by itself is turned on."""

    is_set: Callable[[ExecutorConfig], bool]
    """Whether what it needs first is configured."""
    advice: str


ADVICE: Mapping[str, BackendAdvice] = {
    "singularity": BackendAdvice(
        lambda config: bool(config.singularity.image),
        "set executor.singularity.image to an image, and terminal.backend: singularity",
    ),
    "modal": BackendAdvice(
        lambda config: bool(config.modal.token_id.get_secret_value()),
        "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, and terminal.backend: modal",
    ),
    "kubernetes": BackendAdvice(
        lambda config: bool(config.kubernetes.kubeconfig),
        "set executor.kubernetes.kubeconfig, and terminal.backend: kubernetes",
    ),
    "ssh": BackendAdvice(
        lambda config: bool(config.ssh.host),
        "set executor.ssh.host to a machine, and terminal.backend: ssh (no isolation)",
    ),
    "local": BackendAdvice(
        lambda config: config.home.allow_local_backend,
        "set security.allow_local_backend: true and terminal.backend: local (no isolation; for "
        "development)",
    ),
}
"""Those that are tried only where somebody has configured them."""


async def checks(settings: Settings, reported: Container[str] = ()) -> list[Check]:
    """Each backend but those that an executor has told of."""
    config = settings.load(ExecutorConfig)
    others = [name for name in BACKENDS if name not in reported]
    wanted = [name for name in others if _is_wanted(name, config)]
    found = dict(zip(wanted, await _probe_all(config, wanted), strict=True))
    return [found.get(name) or _advise(name) for name in others]


def _is_wanted(name: str, config: ExecutorConfig) -> bool:
    return (
        name in AUTOMATIC
        or name == config.backend
        or (name in ADVICE and ADVICE[name].is_set(config))
    )


def _advise(name: str) -> Check:
    return Check("sandbox", Verdict.OFF, f"{name}: off; to use it {ADVICE[name].advice}")


async def _probe_all(config: ExecutorConfig, names: list[str]) -> list[Check]:
    if not names:
        return []
    supervisor = await asyncio.to_thread(build_zipapp)
    # Of its own, so that the boxes of an executor that runs are none of its business.
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-doctor-")
    try:
        site = Site(_OWNER, Path(folder), supervisor, config)
        return await all_of(_probe(name, site) for name in names)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _probe(name: str, site: Site) -> Check:
    backend = BACKENDS[name](site)
    try:
        async with asyncio.timeout(PROBE_S):
            found = await backend.probe()
    except TimeoutError:
        message = f"{name}: no answer within {PROBE_S:g} s"
        return Check("sandbox", Verdict.NOTE, message)
    finally:
        await backend.close()
    return _check(found)


def _check(found: Capabilities) -> Check:
    if not found.available:
        return Check("sandbox", Verdict.NOTE, f"{found.name} cannot be used: {found.reason}")
    message = f"{found.name} could be used, isolation {found.isolation} ({found.reason})"
    return Check("sandbox", Verdict.OK, message)
