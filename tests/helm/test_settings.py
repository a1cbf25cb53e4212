"""What the chart tells the services is what they read: variables, files, flags, ports and paths."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from agent_service.config import AgentConfig
from agent_service.servicer.policy import POLICY as AGENT
from executor_service.backends.kubernetes.pod import selected_labels
from executor_service.backends.kubernetes.probe import holes
from executor_service.config import ExecutorConfig
from executor_service.servicer.policy import POLICY as EXECUTOR
from gateway_service.app import POLICY as GATEWAY
from gateway_service.config import GatewayConfig
from gateway_service.platforms.api_config import ApiConfig
from scheduler_service.servicer.jobs import POLICY as SCHEDULER
from services.cli.admin import cluster_checks
from services.cli.main import parser_of
from services.cli.startup import catalog
from services.config.catalog import check_settings
from services.config.settings import Settings, load_settings
from services.rpc import deadlines
from services.rpc.addresses import TcpAddress, parse_address
from services.rpc.auth import Identity
from services.runtime.config import ServiceConfig
from tests.helm.charts import (
    CALLS,
    NAMESPACE,
    SERVICES,
    SETS,
    WORKLOADS,
    Json,
    Rendered,
    containers_of,
    pod_template,
    rendered,
    rendered_set,
    with_values,
)
from tests.helm.network import selects
from tests.helm.test_network import CALLERS
from tests.support.kubernetes_cluster import documented
from tests.support.markdown import ROOT, page

POLICIES = {"agent": AGENT, "executor": EXECUTOR, "gateway": GATEWAY, "scheduler": SCHEDULER}
SECRETS = {
    "url": "postgresql://hermes:hidden@database.example.org/hermes",
    "TELEGRAM_BOT_TOKEN": "123456:ABC-def",
}
DOWNWARD = {"metadata.name": "hermes-x-0", "status.podIP": "10.0.0.7"}


def environment(container: Json) -> dict[str, str]:
    """The variables as a kubelet gives them."""
    values: dict[str, str] = {}
    for each in container.get("env", ()):
        source = each.get("valueFrom")
        text = DOWNWARD[source["fieldRef"]["fieldPath"]] if source else each["value"]
        values[each["name"]] = re.sub(r"\$\((\w+)\)", lambda m: values[m[1]], text)
    return values


def mounted(pod: Json, container: Json, config: str) -> Iterator[tuple[str, str]]:
    """The files that a container finds, by their paths."""
    volumes = {each["name"]: each for each in pod["spec"].get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        volume, path = volumes.get(mount["name"], {}), mount["mountPath"]
        if "configMap" in volume:
            yield path, config
        for item in volume.get("secret", {}).get("items", ()):
            yield f"{path}/{item['path']}", SECRETS.get(item["path"], "x" * 40)
        if mount["name"] == "tls":
            yield from ((f"{path}/{key}", key) for key in ("ca.crt", "tls.crt", "tls.key"))
        if mount["name"] == "modal":
            yield from ((f"{path}/{key}", key) for key in ("token-id", "token-secret"))


def settings_of(chart: Rendered, workload: Json, container: Json, root: Path) -> Settings:
    """The settings as that container's process reads them; its root is a folder here."""
    pod, environ = pod_template(workload), environment(container)
    config = yaml.safe_dump(chart.config)
    for path, content in mounted(pod, container, config):
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    home = root / environ["HERMES_HOME"].lstrip("/")
    home.mkdir(parents=True, exist_ok=True)
    for name, value in environ.items():
        if value.startswith(("/etc/", "/run/", "/var/")):
            environ[name] = f"{root}{value}"
    return load_settings({}, environ)


def processes(name: str) -> Iterator[tuple[Json, Json]]:
    """Every container of ours in a set of values, with what runs it."""
    for workload in rendered_set(name).of(*WORKLOADS):
        for container in containers_of(pod_template(workload)):
            if container["name"] != "postgresql":
                yield workload, container


@pytest.mark.parametrize("name", SETS)
def test_services_start_with_what_they_are_given(name: str, tmp_path: Path) -> None:
    started: set[str] = set()
    for number, (workload, container) in enumerate(processes(name)):
        command, *arguments = container["args"]
        parsed = parser_of(command).parse_args(arguments)
        if command == "certs":
            assert parsed.namespace == NAMESPACE
            continue
        settings = settings_of(rendered_set(name), workload, container, tmp_path / str(number))
        # An unknown variable or key of ours is an error here.
        assert check_settings(settings, catalog()) == []
        chassis = settings.load(ServiceConfig)
        match command:
            case "serve":
                assert parsed.service == container["name"]
                _check_files(chassis)
                _check_service(chassis, settings, container)
                started.add(parsed.service)
            case "database":
                url = chassis.database.url_of(parsed.service[0], settings.home)
                assert url.startswith("postgresql:")
            case "batch":
                assert parsed.dataset.is_relative_to(container["volumeMounts"][0]["mountPath"])
                _check_files(chassis)
                own = chassis.addresses.find("scheduler", settings.home)
                assert own == TcpAddress(f"hermes-scheduler.{NAMESPACE}.svc", 7404)
            case _:
                assert parsed.command == ["id"]
                assert parsed.network_denied == (name != "ssh-only")
                _check_files(chassis)
                own = chassis.addresses.find("executor", settings.home)
                assert own == TcpAddress(f"hermes-executor.{NAMESPACE}.svc", 7402)
    assert started == set(SERVICES)


def _check_files(chassis: ServiceConfig) -> None:
    files = chassis.tls.files
    assert files is not None
    assert all(path.exists() for path in (files.ca, files.certificate, files.key))


def _check_service(chassis: ServiceConfig, settings: Settings, container: Json) -> None:
    service = container["name"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"grpc": CALLS[service], "metrics": chassis.metrics.port}
    assert chassis.listen == TcpAddress("0.0.0.0", CALLS[service])
    assert chassis.metrics.host == "0.0.0.0"
    assert chassis.instance == "hermes-x-0"
    paths = {container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("liveness", "readiness")}
    assert {path.partition("?")[0] for path in paths} == {"/livez", "/readyz"}
    for each, port in CALLS.items():
        found = chassis.addresses.find(each, settings.home)
        assert found == TcpAddress(f"hermes-{each}.{NAMESPACE}.svc", port)
    url = chassis.database.url_of(service, settings.home)
    assert url.startswith("sqlite:" if service == "executor" else "postgresql:")
    if service == "agent":
        config = settings.load(AgentConfig)
        assert config.profiles.store == "database"
        own = parse_address(config.endpoint)
        assert own == TcpAddress("10.0.0.7", 7401, f"hermes-agent.{NAMESPACE}.svc")
    if service == "executor":
        endpoint = settings.load(ExecutorConfig).endpoint
        assert endpoint == f"hermes-x-0.hermes-executor.{NAMESPACE}.svc:7402"


def loaded(name: str, service: str, tmp_path: Path) -> Settings:
    return settings_in(rendered_set(name), service, tmp_path)


def settings_in(chart: Rendered, service: str, tmp_path: Path) -> Settings:
    workload = chart.service(service)
    (container,) = [
        each for each in containers_of(pod_template(workload)) if each["name"] == service
    ]
    return settings_of(chart, workload, container, tmp_path)


def test_keys_and_tokens_come_from_files(tmp_path: Path) -> None:
    agent = loaded("production", "agent", tmp_path / "agent").load(AgentConfig)
    assert agent.model.openrouter_api_key.get_secret_value() == "x" * 40
    assert agent.model.login.shared_key.get_secret_value() == "x" * 40
    gateway = loaded("production", "gateway", tmp_path / "gateway").load(GatewayConfig)
    assert gateway.telegram.token.get_secret_value() == SECRETS["TELEGRAM_BOT_TOKEN"]
    executor = loaded("modal-only", "executor", tmp_path / "executor").load(ExecutorConfig)
    assert executor.modal.token_id.get_secret_value() == "token-id"
    assert executor.modal.token_secret.get_secret_value() == "token-secret"


def test_the_values_of_sandboxes_reach_the_executor(tmp_path: Path) -> None:
    config = loaded("production", "executor", tmp_path).load(ExecutorConfig)
    kubernetes = config.kubernetes
    assert (config.backend, config.warm_pool_size, config.max_sandboxes) == ("kubernetes", 4, 32)
    assert kubernetes.image.startswith("registry.example.org/hermes/sandbox@sha256:")
    assert (kubernetes.namespace, kubernetes.release) == ("hermes-sandboxes", "hermes-sandboxes")
    assert (kubernetes.runtime_class, kubernetes.isolation) == ("gvisor", "userspace_kernel")
    assert kubernetes.pull_secrets == ("pull",)
    assert kubernetes.node_selector == {"example.org/pool": "sandboxes"}
    assert kubernetes.tolerations[0]["effect"] == "NoSchedule"
    assert kubernetes.workspace_claim == "hermes-workspaces"
    assert config.workspaces.shared
    assert config.spool_bytes == 4 * 1024**3
    assert config.network.hosts == ("api.github.com", "*.example.org:443,8443")
    assert config.secrets["GITHUB_TOKEN"].file == "/run/secrets/hermes/egress/GITHUB_TOKEN"


@pytest.mark.parametrize("name", [name for name in SETS if "only" not in name])
def test_the_quota_has_room_for_the_sandboxes_of_all_executors(name: str, tmp_path: Path) -> None:
    chart = rendered_set(name)
    if not chart.of("ResourceQuota"):
        assert not chart.of("Namespace")
        return
    config = loaded(name, "executor", tmp_path).load(ExecutorConfig)
    most = chart.service("executor")["spec"]["replicas"] * config.max_sandboxes
    hard = chart.one("ResourceQuota", "hermes-sandboxes")["spec"]["hard"]
    assert most < int(hard["pods"])
    assert most <= int(hard["limits.cpu"]) == int(hard["requests.cpu"])
    gibibytes = most * config.box.memory_bytes / 1024**3
    assert gibibytes <= int(hard["limits.memory"].removesuffix("Gi"))
    assert hard["limits.memory"] == hard["requests.memory"]


def test_sandboxes_give_way_to_everything_else(tmp_path: Path) -> None:
    chart = rendered_set("kind")
    (lowest,) = chart.of("PriorityClass")
    assert lowest["value"] < 0
    config = loaded("kind", "executor", tmp_path).load(ExecutorConfig)
    assert config.kubernetes.priority_class == lowest["metadata"]["name"]
    given = rendered(with_values("kind", priorityClassName="high"))
    for workload in given.of(*WORKLOADS):
        assert pod_template(workload)["spec"]["priorityClassName"] == "high"
    none = rendered(with_values("kind", sandbox__priorityClass__create=False))
    assert not none.of("PriorityClass")
    assert "priority_class" not in none.config["executor"]["kubernetes"]


def test_an_executor_is_awaited_longer_than_its_replacement_takes(tmp_path: Path) -> None:
    assert loaded("kind", "agent", tmp_path).load(AgentConfig).executor_away_s == 30


def test_a_trial_fits_a_node_of_two_processors(tmp_path: Path) -> None:
    chart = rendered_set("kind")
    config = loaded("kind", "executor", tmp_path).load(ExecutorConfig)
    assert config.kubernetes.cpu_request is not None
    # What the control plane of kind and its DNS ask for.
    asked = 0.95 + config.max_sandboxes * config.kubernetes.cpu_request
    for workload in chart.of(*WORKLOADS):
        requests = [
            cpu_of(each["resources"]["requests"]["cpu"])
            for each in containers_of(pod_template(workload))
        ]
        asked += max(requests)
    assert asked < 2


def test_a_trial_may_reach_its_model() -> None:
    chart = rendered_set("kind")
    assert chart.config["model"]["base_url"].startswith("http://model.default.svc:8080/")
    rule = chart.one("NetworkPolicy", "hermes-agent")["spec"]["egress"][-1]
    assert [port["port"] for port in rule["ports"]] == [8080]
    (peer,) = rule["to"]
    labels = peer["namespaceSelector"]["matchLabels"]
    assert labels == {"kubernetes.io/metadata.name": "default"}


def cpu_of(quantity: str) -> float:
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def test_who_may_connect_is_who_may_call() -> None:
    for service, policy in POLICIES.items():
        callers = {str(each) for allowed in policy.values() for each in allowed}
        # `helm test` comes as the operator.
        assert callers - {"operator"} == CALLERS[service] - {"test"}
        # What `hermes doctor --cluster` asks of each pod.
        assert {
            each for each, called in cluster_checks.CALLS.items() if service in called
        } == callers


def test_services_have_time_to_let_go() -> None:
    for service in SERVICES:
        spec = pod_template(rendered_set("minimal").service(service))["spec"]
        pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pause <= 5
        drained = pause + deadlines.DRAIN_S * 2 + deadlines.STOP_GRACE_S
        assert drained < spec["terminationGracePeriodSeconds"] == 30


def test_the_role_is_the_documented_one() -> None:
    chart = rendered_set("minimal")
    role = chart.one("Role", "hermes-executor")
    assert role["rules"] == documented()["Role"]["rules"]
    (subject,) = chart.one("RoleBinding", "hermes-executor")["subjects"]
    own = pod_template(chart.service("executor"))["spec"]["serviceAccountName"]
    assert (subject["name"], subject["namespace"]) == (own, NAMESPACE)


def test_the_executor_takes_the_namespace_for_closed() -> None:
    chart = rendered_set("minimal")
    policies = [
        each
        for each in chart.of("NetworkPolicy")
        if each["metadata"]["namespace"] == "hermes-sandboxes"
    ]
    assert len(policies) == 1
    assert selects(policies[0]["spec"]["podSelector"], selected_labels("owner", "pool", "box"))
    assert list(holes(policies, selected_labels("owner", "pool", "box"))) == []


def test_migrations_are_those_of_every_service_with_tables() -> None:
    schemas = import_module("services.cli.admin.database").SCHEMAS
    job = rendered_set("minimal").one("Job", "hermes-migrations")
    upgraded = [each["args"] for each in containers_of(pod_template(job))]
    assert sorted(args[2] for args in upgraded) == sorted(schemas)
    assert all(args[:2] == ["database", "upgrade"] for args in upgraded)


def test_certificates_are_for_the_names_that_services_are_called_by() -> None:
    issued = {
        each["metadata"]["name"].removeprefix("hermes-"): each["spec"]
        for each in rendered_set("minimal").of("Certificate")
        if not each["spec"].get("isCA")
    }
    published = parser_of("certs").parse_args(
        pod_template(rendered_set("kind").one("Job", "hermes-certificates"))["spec"]["containers"][
            0
        ]["args"][1:]
    )
    for service in SERVICES:
        names = {f"hermes-{service}.{NAMESPACE}.svc"}
        if service == "executor":
            names.add(f"*.hermes-executor.{NAMESPACE}.svc")
        assert set(issued[service]["dnsNames"]) == names
        assert issued[service]["uris"] == [f"spiffe://hermes/{service}"]
        assert {
            name
            for own, _, name in (each.partition("=") for each in published.name)
            if own == service
        } == names
    assert issued["operator"]["uris"] == ["spiffe://hermes/operator"]
    for name in ("minimal", "kind", "airgapped"):
        for service in SERVICES:
            volumes = pod_template(rendered_set(name).service(service))["spec"]["volumes"]
            (tls,) = [each for each in volumes if each["name"] == "tls"]
            assert tls["secret"]["secretName"] == f"hermes-{service}-tls"


def test_whoever_makes_certificates_may_write_these_secrets_and_no_others() -> None:
    chart = rendered_set("kind")
    making, changing = chart.one("Role", "hermes-certificates")["rules"]
    assert (making["resources"], making["verbs"]) == (["secrets"], ["create"])
    assert (changing["resources"], set(changing["verbs"])) == (["secrets"], {"get", "update"})
    # As `hermes certs publish` names them: see tests/unit/services/test_certificate_secrets.py.
    kept = {f"hermes-{identity}-tls" for identity in (*Identity, "ca")}
    assert set(changing["resourceNames"]) == kept
    mounted = {
        volume["secret"]["secretName"]
        for each in chart.of(*WORKLOADS)
        for volume in pod_template(each)["spec"]["volumes"]
        if volume["name"] == "tls"
    }
    assert mounted == kept - {"hermes-ca-tls"}


def test_an_operator_outside_finds_what_the_page_names() -> None:
    said = "\n".join(
        block.text for block in page(ROOT / "docs/operators/kubernetes.md").blocks("sh")
    )
    chart = rendered_set("minimal")
    issued = {each["spec"]["secretName"]: each["spec"] for each in chart.of("Certificate")}
    assert [name for name in re.findall(r"get secret (\S+)", said) if name not in issued] == []
    (found,) = re.findall(r"HERMES_GATEWAY_ADDRESS=(\S+)", said)
    address = parse_address(found)
    assert isinstance(address, TcpAddress)
    assert address.server_name in issued["hermes-gateway-tls"]["dnsNames"]
    ports = [each["port"] for each in chart.one("Service", "hermes-gateway")["spec"]["ports"]]
    assert address.port in ports


def test_http_is_served_to_the_cluster_if_it_is_on(tmp_path: Path) -> None:
    chart = rendered(with_values("minimal", gateway__http={"enabled": True, "port": 8700}))
    api = settings_in(chart, "gateway", tmp_path).load(ApiConfig)
    assert (api.host, api.port, api.is_on) == ("0.0.0.0", 8700, False)
