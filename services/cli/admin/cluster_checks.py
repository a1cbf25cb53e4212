"""Checks of `hermes doctor --cluster` that only work inside a deployment."""

import asyncio
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta

from hermes.executor.v1 import sandbox_pb2
from services.cli.failures import EXPECTED, explain
from services.cli.process import ALL
from services.cli.sandboxes.trial import Trial, trials_of
from services.config.settings import Settings
from services.errors import HermesError
from services.rpc.addresses import TcpAddress
from services.rpc.auth import Identity, identity_named
from services.rpc.tls import TlsFiles, check_files, load_certificates
from services.runtime.checks import Check, Verdict
from services.runtime.config import ServiceConfig

CALLS: Mapping[Identity, frozenset[str]] = {
    Identity.AGENT: frozenset({"agent", "executor", "gateway", "scheduler"}),
    Identity.EXECUTOR: frozenset(),
    Identity.GATEWAY: frozenset({"agent", "scheduler"}),
    Identity.SCHEDULER: frozenset({"agent", "gateway"}),
    Identity.OPERATOR: frozenset(ALL),
}
"""The services that each one calls, as in their policies; it must not reach any other."""

METADATA = TcpAddress("169.254.169.254", 80)
"""The address of cloud metadata, which gives out the machine's credentials."""
LEFT = timedelta(days=7)
"""The least time left of a certificate; they are renewed earlier."""
CONNECT_S = 3.0
OPEN = frozenset({"ssh"})
"""Backends without network isolation, in which reaching a network is no failure."""


def called_from_here(settings: Settings) -> tuple[str, ...]:
    """Return the services that this pod may call; all if its identity is unknown."""
    files = settings.load(ServiceConfig).tls.files
    identity = None if files is None else certificate_check(files, datetime.now(UTC))[1]
    return ALL if identity is None else tuple(name for name in ALL if name in CALLS[identity])


async def cluster_checks(settings: Settings, silent: Container[str]) -> list[Check]:
    """Run all checks from inside; services in `silent` were reported already."""
    config = settings.load(ServiceConfig)
    if config.tls.files is None:
        what = "none: HERMES_TLS_CA, HERMES_TLS_CERTIFICATE and HERMES_TLS_KEY are not set"
        return [Check("certificate", Verdict.FAILED, what)]
    certificate, identity = certificate_check(config.tls.files, datetime.now(UTC))
    if identity is None:
        return [certificate]
    found = [certificate, *await network_checks(settings, identity)]
    if "executor" in CALLS[identity] and "executor" not in silent:
        found += await _trials(settings)
    return found


def certificate_check(files: TlsFiles, now: datetime) -> tuple[Check, Identity | None]:
    """Check how long the pod's certificate lasts; also return its identity."""
    from cryptography import x509

    try:
        check_files(files, now)
        own = load_certificates(files.certificate)[0]
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (HermesError, x509.ExtensionNotFound) as error:
        return Check("certificate", Verdict.FAILED, explain(error)), None
    identity = identity_named(uris[0]) if len(uris) == 1 else None
    if identity is None:
        what = f"{files.certificate} was not made by `hermes certs`: its URI names are {uris}"
        return Check("certificate", Verdict.FAILED, what), None
    left, until = own.not_valid_after_utc - now, f"{own.not_valid_after_utc:%Y-%m-%d}"
    if left < LEFT:
        what = (
            f"the certificate of the {identity} expires on {until}, in {left.days} days; renew it"
        )
        return Check("certificate", Verdict.NOTE, what), identity
    return Check("certificate", Verdict.OK, f"of the {identity}, until {until}"), identity


async def network_checks(
    settings: Settings, identity: Identity, metadata: TcpAddress = METADATA
) -> list[Check]:
    """Check that forbidden destinations cannot be reached."""
    in_cluster = "KUBERNETES_SERVICE_HOST" in settings.environ
    addresses = settings.load(ServiceConfig).addresses
    forbidden = {"metadata service": metadata}
    for name in ALL:
        address = addresses.find(name, settings.home)
        # Containers that share a Docker network with a caller can connect, but are refused.
        leads_back = not in_cluster and identity in CALLS[Identity(name)]
        is_needed = leads_back or name in {*CALLS[identity], identity}
        if isinstance(address, TcpAddress) and not is_needed:
            forbidden[name] = address
    advice = (
        "share networks only between services that call each other: see docs/operators/compose.md"
    )
    if in_cluster:
        advice = "does the cluster's network plugin enforce network policies?"
    reached = [
        f"the {identity} can reach the {name} at {address}, which it does not need; {advice}"
        for name, address in forbidden.items()
        if await _connects(address)
    ]
    ways = ", ".join(f"the {name}" for name in forbidden)
    well = [Check("network", Verdict.OK, f"no way to {ways}")]
    return [Check("network", Verdict.FAILED, what) for what in reached] or well


async def _connects(address: TcpAddress) -> bool:
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _trials(settings: Settings) -> list[Check]:
    try:
        usual = sandbox_pb2.AcquireSandboxRequest()
        trials, silent = await trials_of(settings, usual, probe=True)
    except EXPECTED as error:
        return [Check("trial", Verdict.FAILED, explain(error))]
    untold = [f"the executor at {endpoint} {instead}" for endpoint, instead in silent.items()]
    failed = [Check("trial", Verdict.FAILED, what) for what in untold]
    return failed + [trial_check(trial) for trial in trials]


def trial_check(trial: Trial) -> Check:
    """Check that a command ran, and that network isolation held."""
    where = trial.executor or "the executor"
    if trial.status != 0:
        what = f"a command at {where} ended with status {trial.status}: {trial.output.strip()}"
        return Check("trial", Verdict.FAILED, what)
    ran = f"a command ran at {where} in {trial.backend}"
    if trial.backend in OPEN:
        return Check("trial", Verdict.OK, f"{ran}, which uses the network of its machine")
    if trial.reached:
        what = f"a sandbox of {where} reached {', '.join(trial.reached)}"
        return Check("trial", Verdict.FAILED, what)
    return Check("trial", Verdict.OK, f"{ran}, and reached nothing outside")
