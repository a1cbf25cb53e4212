"""Who may talk to whom, by an evaluation of the rendered policies over everybody and every port."""

from collections.abc import Iterable

import pytest

from tests.helm.charts import (
    CALLS,
    NAMESPACE,
    SERVICES,
    SETS,
    WORKLOADS,
    Json,
    Rendered,
    pod_template,
    rendered,
    rendered_set,
    with_values,
)
from tests.helm.network import Network, Place

METRICS, DATABASE, DNS = 9464, 5432, 53
SANDBOXES = {"kubernetes.io/metadata.name": "hermes-sandboxes"}
OWN = {"kubernetes.io/metadata.name": NAMESPACE}
PROMETHEUS = Place(
    "prometheus",
    {"app.kubernetes.io/name": "prometheus"},
    {"kubernetes.io/metadata.name": "monitoring"},
)
RESOLVER = Place("dns", {"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})
STRANGERS = (
    Place("a stranger in the namespace", {"app": "other"}, OWN),
    Place(
        "a stranger elsewhere",
        {"app.kubernetes.io/component": "agent"},
        {"kubernetes.io/metadata.name": "elsewhere"},
    ),
    Place(
        "another release",
        {
            "app.kubernetes.io/name": "hermes",
            "app.kubernetes.io/instance": "another",
            "app.kubernetes.io/component": "agent",
        },
        OWN,
    ),
)
INTERNET = Place("internet", address="93.184.215.14")
INTERNET_6 = Place("internet by IPv6", address="2606:2800:21f:cb07:6820:80da:af6b:8b2c")
PRIVATE = (
    Place("metadata", address="169.254.169.254"),
    Place("a private address", address="10.1.2.3"),
    Place("a private address of IPv6", address="fd00::1"),
)
SANDBOX = Place(
    "sandbox",
    {
        "app.kubernetes.io/name": "hermes-sandbox",
        "app.kubernetes.io/managed-by": "hermes-executor",
        "org.hermes.box": "box",
    },
    SANDBOXES,
)
PORTS = (22, DNS, 80, 443, 2222, 2376, DATABASE, 6443, 8000, 8443, *CALLS.values(), METRICS)

CALLERS = {
    "agent": {"agent", "gateway", "scheduler"},
    "executor": {"agent", "test"},
    "gateway": {"agent", "scheduler"},
    "scheduler": {"agent", "gateway"},
}
"""Who calls whom."""


def pods(chart: Rendered) -> dict[str, Place]:
    """All that the release runs, by component."""
    found: dict[str, Place] = {}
    for workload in chart.of(*WORKLOADS):
        labels = pod_template(workload)["metadata"]["labels"]
        found[labels["app.kubernetes.io/component"]] = Place(
            labels["app.kubernetes.io/component"], labels, OWN
        )
    return found


def network(chart: Rendered) -> Network:
    return Network(chart.of("NetworkPolicy"))


def table(chart: Rendered, outside: Iterable[Place] = ()) -> set[tuple[str, str, int]]:
    """Every connection that comes about, by TCP."""
    open_to = network(chart)
    inside = pods(chart).values()
    boxes = [SANDBOX] if chart.of("Namespace") else []
    everybody = [*inside, *boxes, PROMETHEUS, *STRANGERS, INTERNET, INTERNET_6, *PRIVATE, *outside]
    ours = {each.name for each in (*inside, *boxes)}
    return {
        (source.name, target.name, port)
        for source in everybody
        for target in (*everybody, RESOLVER)
        for port in PORTS
        if ours & {source.name, target.name} and open_to.lets(source, target, port)
    }


def calls() -> set[tuple[str, str, int]]:
    """What the services say to one another, and Prometheus to them."""
    asked = {(who, whom, CALLS[whom]) for whom, callers in CALLERS.items() for who in callers}
    return asked | {("prometheus", whom, METRICS) for whom in SERVICES}


def resolving(chart: Rendered) -> set[tuple[str, str, int]]:
    return {(who, "dns", DNS) for who in pods(chart) if who != "postgresql"}


def asked_for_batch(name: str) -> set[tuple[str, str, int]]:
    asked = ("agent", "scheduler") if name in ("kind", "production") else ()
    return {("batch", whom, CALLS[whom]) for whom in asked}


def to(target: Place, who: str, *ports: int) -> set[tuple[str, str, int]]:
    return {(who, target.name, port) for port in ports}


def everywhere(who: str, *ports: int) -> set[tuple[str, str, int]]:
    """To every address that is no pod: where nobody has said which ones are meant."""
    return {row for target in (INTERNET, INTERNET_6, *PRIVATE) for row in to(target, who, *ports)}


def anywhere(who: str, *ports: int) -> set[tuple[str, str, int]]:
    """To every address, pods included: a rule without peers."""
    pods_too = (PROMETHEUS, *STRANGERS, RESOLVER)
    return everywhere(who, *ports) | {row for each in pods_too for row in to(each, who, *ports)}


def internet(who: str, *ports: int) -> set[tuple[str, str, int]]:
    return to(INTERNET, who, *ports) | to(INTERNET_6, who, *ports)


MODELS = Place("models", {"app": "vllm"}, {"kubernetes.io/metadata.name": "models"})
CLUSTER_DATABASE = Place(
    "database", {"cnpg.io/cluster": "hermes"}, {"kubernetes.io/metadata.name": "databases"}
)
WITH_DATABASE = ("agent", "gateway", "scheduler", "migrations")
API = (443, 6443)


def expected(name: str, chart: Rendered) -> set[tuple[str, str, int]]:
    """The whole table of a set of values; what is not in it must not come about."""
    rows = calls() | resolving(chart) | asked_for_batch(name)
    if name in ("minimal", "ssh-only", "modal-only", "docker-remote", "singularity"):
        rows |= {row for who in WITH_DATABASE for row in anywhere(who, DATABASE)}
    if name not in ("airgapped", "docker-remote"):
        rows |= internet("agent", 80, 443) | internet("gateway", 443)
    match name:
        case "minimal":
            rows |= anywhere("executor", *API)
        case "kind":
            rows |= {(who, "postgresql", DATABASE) for who in WITH_DATABASE}
            rows |= anywhere("executor", *API) | anywhere("certificates", *API)
        case "production":
            rows |= {row for who in WITH_DATABASE for row in to(CLUSTER_DATABASE, who, DATABASE)}
            rows |= to(Place("api"), "executor", 443) | internet("executor", 80, 443, 8443)
            rows |= {("toolbox", whom, CALLS[whom]) for whom in SERVICES}
        case "ssh-only":
            rows |= to(Place("machine"), "executor", 2222)
        case "docker-remote":
            rows |= to(Place("machine"), "executor", 2376)
        case "modal-only":
            rows |= internet("executor", 443)
        case "airgapped":
            rows |= {row for who in WITH_DATABASE for row in to(Place("database"), who, DATABASE)}
            rows |= to(MODELS, "agent", 8000) | anywhere("executor", *API)
            rows |= {("executor", each, port) for each in ("models", "database") for port in API}
        case _:
            pass
    return rows


OUTSIDE = {
    "production": (
        CLUSTER_DATABASE,
        Place("api", address="192.0.2.10"),
        Place("toolbox", {"app": "hermes-toolbox"}, OWN),
    ),
    "ssh-only": (Place("machine", address="198.51.100.7"),),
    "docker-remote": (Place("machine", address="198.51.100.8"),),
    "airgapped": (MODELS, Place("database", address="10.20.0.5")),
}


@pytest.mark.parametrize("name", SETS)
def test_who_talks_to_whom_is_this_table(name: str) -> None:
    chart = rendered_set(name)
    found, wanted = table(chart, OUTSIDE.get(name, ())), expected(name, chart)
    known = {"machine", "api", "database"}
    # Rules without peers, and to the internet, reach what was added to the world as well.
    beyond = {row for row in found - wanted if row[1] in known and _is_open(row, found)}
    assert found - wanted - beyond == set()
    assert wanted - found == set()


def _is_open(row: tuple[str, str, int], found: set[tuple[str, str, int]]) -> bool:
    who, _, port = row
    return (who, INTERNET.name, port) in found


@pytest.mark.parametrize("name", SETS)
def test_sandboxes_reach_nobody_and_nobody_reaches_them(name: str) -> None:
    chart = rendered_set(name)
    if chart.config["executor"]["backend"] != "kubernetes":
        assert not chart.of("Namespace")
        return
    own = [row for row in table(chart) if SANDBOX.name in row]
    assert own == []
    assert not network(chart).lets(SANDBOX, RESOLVER, DNS, "UDP")


def test_names_are_resolved_by_udp_too() -> None:
    chart = rendered_set("minimal")
    for place in pods(chart).values():
        assert network(chart).lets(place, RESOLVER, DNS, "UDP")
        assert not network(chart).lets(place, INTERNET, DNS, "UDP")


def test_names_take_the_place_of_addresses_with_cilium() -> None:
    chart = rendered_set("docker-remote")
    policies: dict[str, Json] = {
        each["metadata"]["name"]: each["spec"] for each in chart.of("CiliumNetworkPolicy")
    }
    assert set(policies) == {f"hermes-{name}-names" for name in ("agent", "executor", "gateway")}
    resolve, reach = policies["hermes-executor-names"]["egress"]
    assert resolve["toPorts"][0]["rules"]["dns"] == [{"matchPattern": "*"}]
    assert reach["toFQDNs"] == [{"matchName": "packages.example.org"}]
    assert [each["port"] for each in reach["toPorts"][0]["ports"]] == ["443", "8443"]
    assert not {row for row in table(chart) if row[0] == "agent" and row[1:] == ("internet", 443)}


@pytest.mark.parametrize("peers", [[], [{"podSelector": {"matchLabels": {"app": "other"}}}]])
def test_http_is_reached_only_where_it_is_on(peers: list[Json]) -> None:
    stranger, elsewhere, _ = STRANGERS
    http = {"enabled": True, "port": 8642, "from": peers}
    chart = rendered(with_values("minimal", gateway__http=http))
    gateway = pods(chart)["gateway"]
    assert network(chart).lets(stranger, gateway, 8642)
    assert network(chart).lets(elsewhere, gateway, 8642) is not bool(peers)
    assert not network(chart).lets(stranger, gateway, CALLS["gateway"])
    service = chart.one("Service", "hermes-http")
    assert service["spec"]["selector"].items() <= gateway.labels.items()
    off = rendered_set("minimal")
    assert not network(off).lets(stranger, pods(off)["gateway"], 8642)
    assert "hermes-http" not in [each["metadata"]["name"] for each in off.of("Service")]
