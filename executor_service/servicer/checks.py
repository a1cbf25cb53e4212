"""Which backends this machine can use, for `hermes doctor`; each is tried by making a box."""

import asyncio
import shutil
import tempfile
from collections.abc import Container, Mapping
from pathlib import Path

from executor_service.backends import AUTOMATIC, BACKENDS, Site
from executor_service.backends.base import Capabilities
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import ExecutorConfig
from services.config.settings import Settings
from services.lifecycle import all_of
from services.runtime.checks import Check, Verdict

PROBE_S = 20.0
"""How long a backend may take to answer."""

_OWNER = "doctor"


ADVICE: Mapping[str, str] = {
    "singularity": "set executor.singularity.image to an image, and terminal.backend: singularity",
    "modal": "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, and terminal.backend: modal",
    "kubernetes": "set executor.kubernetes.kubeconfig, and terminal.backend: kubernetes",
    "ssh": "set executor.ssh.host to a machine, and terminal.backend: ssh (no isolation)",
    "local": "set security.allow_local_backend: true and terminal.backend: local (no isolation; "
    "for development)",
}
"""How to turn on each backend that is tried only if it is configured."""


async def checks(settings: Settings, reported: Container[str] = ()) -> list[Check]:
    """Checks all backends except those that an executor has already reported."""
    config = settings.load(ExecutorConfig)
    others = [name for name in BACKENDS if name not in reported]
    wanted = [name for name in others if _is_wanted(name, config)]
    found = dict(zip(wanted, await _probe_all(config, wanted), strict=True))
    return [
        found.get(name) or Check("sandbox", Verdict.OFF, f"{name}: off; to use it {ADVICE[name]}")
        for name in others
    ]


def _is_wanted(name: str, config: ExecutorConfig) -> bool:
    configured = {
        "singularity": config.singularity.image,
        "modal": config.modal.token_id.get_secret_value(),
        "kubernetes": config.kubernetes.kubeconfig,
        "ssh": config.ssh.host,
        "local": config.home.allow_local_backend,
    }
    return name in (*AUTOMATIC, config.backend) or bool(configured.get(name))


async def _probe_all(config: ExecutorConfig, names: list[str]) -> list[Check]:
    if not names:
        return []
    supervisor = await asyncio.to_thread(build_zipapp)
    # A folder of its own keeps the probe away from the boxes of a running executor.
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-doctor-")
    try:
        site = Site(_OWNER, Path(folder), supervisor, config, Path(folder))
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
    message = f"{found.name} works, isolation {found.isolation} ({found.reason})"
    return Check("sandbox", Verdict.OK, message)
