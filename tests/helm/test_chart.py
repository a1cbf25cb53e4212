"""The chart: its values, and what they change in what it makes."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import helm_python
import pytest
import yaml

from services.cli.batch.progress import EXIT_UNFINISHED
from services.cli.console import EXIT_USAGE
from tests.helm.charts import (
    CHART,
    NAMESPACE,
    SERVICES,
    SETS,
    WORKLOADS,
    Json,
    Rendered,
    chart,
    containers_of,
    folder_of,
    pod_template,
    rendered,
    rendered_set,
    values_of,
    with_values,
)

VALUES = (CHART / "values.yaml").read_text("utf-8").splitlines()
HOOKS = {
    "hermes-certificates": ("pre-install,pre-upgrade", "-10"),
    "hermes-migrations": ("pre-install,pre-upgrade", "0"),
}


def test_values_are_short_and_each_is_explained() -> None:
    assert len(VALUES) <= 310
    unexplained = [
        line
        for line in VALUES
        if line.strip() and not line.startswith("#") and not re.search(r"\S # \S", line)
    ]
    assert unexplained == []


@pytest.mark.parametrize("name", SETS)
def test_lint_finds_nothing(name: str) -> None:
    report = helm_python.lint(CHART, values_of(name), strict=True, namespace=NAMESPACE)
    worse = [each for each in report["messages"] if each["severity"] > 1]
    assert (worse, report["errors"]) == ([], [])


def schema_paths(schema: Json, definitions: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from schema_paths(inner, definitions, f"{path}.{key}".lstrip("."))


def test_every_value_is_in_the_schema_and_no_other_key_is_taken() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    known = dict(schema_paths(schema, schema["$defs"]))
    open_objects = {
        path
        for path, each in known.items()
        if each.get("type") == "object"
        and "properties" in each
        and each.get("additionalProperties") is not False
    }
    assert open_objects == {"global"}

    def walk(value: object, path: str) -> Iterator[str]:
        if isinstance(value, dict) and known.get(path, {}).get("properties"):
            for key, inner in cast("Json", value).items():
                yield from walk(inner, f"{path}.{key}".lstrip("."))
        else:
            yield path

    own = set(walk(yaml.safe_load("\n".join(VALUES)), ""))
    assert own - known.keys() == set()


def test_digests_count_before_tags_and_the_global_registry_before_any() -> None:
    images = {
        container["image"]
        for each in rendered_set("production").of(*WORKLOADS)
        for container in containers_of(pod_template(each))
    }
    assert all(
        re.fullmatch(r"registry\.example\.org/hermes/\w+@sha256:\d{64}", each) for each in images
    )
    own = rendered(with_values("minimal", image__registry="r.example", image__tag="1.2.3"))
    (agent,) = containers_of(pod_template(own.service("agent")))
    assert agent["image"] == "r.example/hermes/agent:1.2.3"
    assert own.config["executor"]["kubernetes"]["image"] == "hermes/sandbox:1.2.3"
    pod = pod_template(rendered_set("production").service("gateway"))
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_replicas_are_left_to_whoever_scales() -> None:
    chart = rendered_set("production")
    scaled = {
        each["metadata"]["name"] for each in chart.of("HorizontalPodAutoscaler", "ScaledObject")
    }
    assert scaled == {"hermes-agent", "hermes-gateway"}
    for name in SERVICES:
        spec = chart.service(name)["spec"]
        assert ("replicas" in spec) == (f"hermes-{name}" not in scaled)
    for each in chart.of("HorizontalPodAutoscaler", "ScaledObject"):
        target = each["spec"]["scaleTargetRef"]
        assert chart.one(target["kind"], target["name"])


def test_a_single_pod_has_no_budget_and_several_have_one() -> None:
    assert not rendered_set("kind").of("PodDisruptionBudget")
    budgets = rendered_set("production").of("PodDisruptionBudget")
    assert {each["metadata"]["name"] for each in budgets} == {f"hermes-{name}" for name in SERVICES}
    assert all(each["spec"]["maxUnavailable"] == 1 for each in budgets)
    assert all(each["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" for each in budgets)


def test_selectors_find_the_pods_and_nothing_else() -> None:
    chart = rendered_set("production")
    for kind in ("Service", "PodDisruptionBudget"):
        for each in chart.of(kind):
            selector = each["spec"]["selector"]
            selector = selector.get("matchLabels", selector)
            found = [
                pod["metadata"]["name"]
                for pod in chart.of(*WORKLOADS)
                if selector.items() <= pod_template(pod)["metadata"]["labels"].items()
            ]
            assert found == [each["metadata"]["name"]]


def test_a_gateway_is_reached_while_it_serves_whatever_it_hears() -> None:
    minimal = rendered_set("minimal")
    (container,) = containers_of(pod_template(minimal.service("gateway")))
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == "/readyz?exclude=platforms"
    # Else those that start and those that stop are in DNS as well.
    services = minimal.of("Service")
    assert len(services) == len(SERVICES)
    assert not [each for each in services if "publishNotReadyAddresses" in each["spec"]]


def test_pods_are_replaced_when_their_configuration_changes() -> None:
    def sums(values: Json) -> set[str]:
        chart = rendered(values)
        return {
            pod_template(chart.service(name))["metadata"]["annotations"]["checksum/config"]
            for name in SERVICES
        }

    before, after = sums(values_of("minimal")), sums(with_values("minimal", log__level="debug"))
    assert len(before) == len(after) == 1
    assert before != after


def test_jobs_run_before_what_needs_them() -> None:
    chart = rendered_set("kind")
    for name, (when, weight) in HOOKS.items():
        wanted = when if name != "hermes-migrations" else "post-install,pre-upgrade"
        notes = chart.one("Job", name)["metadata"]["annotations"]
        assert (notes["helm.sh/hook"], notes["helm.sh/hook-weight"]) == (wanted, weight)
    notes = rendered_set("minimal").one("Job", "hermes-migrations")["metadata"]["annotations"]
    assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
    # What a hook's pods need must be made by hooks before it, or be there already.
    hooked = {
        (each["kind"], each["metadata"]["name"]): int(
            each["metadata"]["annotations"].get("helm.sh/hook-weight", "0")
        )
        for each in chart.objects
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    for (kind, name), weight in hooked.items():
        if kind == "Job":
            account = pod_template(chart.one(kind, name))["spec"]["serviceAccountName"]
            assert hooked["ServiceAccount", account] < weight


def test_another_pod_is_another_job_of_the_same_batch() -> None:
    """As a Job cannot be changed; one that is left as it is must not run again."""

    def job(**changes: object) -> Json:
        (found,) = [
            each
            for each in rendered(with_values("kind", **changes)).of("Job")
            if each["metadata"]["labels"]["app.kubernetes.io/component"] == "batch"
        ]
        return found

    before = job()
    assert job(scheduler__replicas=5) == before
    for changes in ({"image__tag": "1.2.3"}, {"batch__args": ["--workers=2"]}):
        after = job(**changes)
        assert after["metadata"]["name"] != before["metadata"]["name"]
        assert "--run=first" in containers_of(pod_template(after))[0]["args"]
    assert not [
        each for each in rendered_set("minimal").objects if "batch" in each["metadata"]["name"]
    ]


def test_a_job_gives_up_where_another_attempt_is_in_vain() -> None:
    (job,) = [
        each for each in rendered_set("production").of("Job") if "batch" in each["metadata"]["name"]
    ]
    policy = job["spec"]["podFailurePolicy"]["rules"]
    codes = {
        code
        for rule in policy
        if rule["action"] == "FailJob"
        for code in rule["onExitCodes"]["values"]
    }
    assert codes == {EXIT_USAGE, EXIT_UNFINISHED}


def test_only_a_pod_is_a_test_whose_log_can_be_read_afterwards() -> None:
    chart = rendered_set("kind")
    (test,) = [
        each
        for each in chart.objects
        if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"
    ]
    assert test["kind"] == "Pod"
    assert test["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert chart.one("ServiceAccount", test["spec"]["serviceAccountName"])


@pytest.mark.parametrize("name", SETS)
def test_hooks_leave_no_account_and_no_right(name: str) -> None:
    for each in rendered_set(name).of("ServiceAccount", "Role", "RoleBinding"):
        notes = each["metadata"].get("annotations", {})
        if "helm.sh/hook" in notes:
            assert "hook-succeeded" in notes["helm.sh/hook-delete-policy"], each["metadata"]["name"]


def test_what_holds_data_stays_when_the_release_goes() -> None:
    chart = rendered_set("production")
    for kind, name in (
        ("Namespace", "hermes-sandboxes"),
        ("PersistentVolumeClaim", "hermes-workspaces"),
    ):
        notes = chart.one(kind, name)["metadata"]["annotations"]
        assert notes["helm.sh/resource-policy"] == "keep"
    executor = chart.service("executor")["spec"]
    assert executor["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    # And what owns the sandboxes goes, so that they do.
    owner = chart.one("ConfigMap", "hermes-sandboxes")
    assert owner["metadata"]["namespace"] == "hermes-sandboxes"
    assert "annotations" not in owner["metadata"]
    namespace = chart.one("Namespace", "hermes-sandboxes")["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_password_of_a_trial_is_made_once_and_can_be_given() -> None:
    def secret(**changes: object) -> Json:
        chart = rendered(with_values("kind", **changes))
        return chart.one("Secret", "hermes-postgresql")["stringData"]

    given = secret(postgresql__password="p@ss/word")
    assert given["password"] == "p@ss/word"
    assert given["url"] == (
        "postgresql://hermes:p%40ss%2Fword@hermes-postgresql.hermes.svc:5432/hermes"
    )
    made = secret(postgresql__password="")["password"]
    assert re.fullmatch(r"[A-Za-z0-9]{32}", made)
    assert made != secret(postgresql__password="")["password"]


def test_rules_and_dashboards_are_the_files_of_the_chart(tmp_path: Path) -> None:
    copy = tmp_path / "hermes"
    shutil.copytree(CHART, copy)
    rules = {"groups": [{"name": "a", "rules": [{"alert": "Down", "expr": "up == 0",
             "annotations": {"summary": "{{ $labels.instance }} is down"}}]}]}  # fmt: skip
    (copy / "rules" / "some.yaml").write_text(yaml.safe_dump(rules))
    (copy / "dashboards" / "one.json").write_text(json.dumps({"title": "{{ one }}"}, indent=2))
    with folder_of(copy) as changed:
        found = rendered(values_of("production"), changed)
        none = rendered(values_of("minimal"), changed)
    assert found.one("PrometheusRule", "hermes-some")["spec"] == rules
    dashboard = found.one("ConfigMap", "hermes-dashboard-one")
    assert json.loads(dashboard["data"]["one.json"]) == {"title": "{{ one }}"}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["metadata"]["annotations"] == {"grafana_folder": "Hermes"}
    assert not none.of("PrometheusRule")


@pytest.mark.parametrize("kind", ["serviceMonitor", "podMonitor"])
def test_all_four_services_are_scraped(kind: str) -> None:
    chart = rendered(with_values("minimal", **{f"metrics__{kind}__enabled": True}))
    (monitor,) = chart.of("ServiceMonitor", "PodMonitor")
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    assert set(expression["values"]) == set(SERVICES)
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    ports = {
        port["name"]
        for each in (chart.of("Service") if kind == "serviceMonitor" else chart.of("Deployment"))
        for port in each["spec"].get("ports") or containers_of(pod_template(each))[0]["ports"]
    }
    assert endpoint["port"] in ports
    assert endpoint["honorLabels"]
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["service"]


def test_the_longest_name_of_a_release_leaves_names_that_fit() -> None:
    longest = "a" * 30 + "-" + "b" * 22
    files = chart().render(values_of("kind"), name=longest, namespace="n" * 53)
    limits = {"CronJob": 52, "StatefulSet": 52}
    limits |= dict.fromkeys(("Job", "Namespace", "Pod", "Service"), 63)
    found = Rendered(files)
    assert {"CronJob", "StatefulSet", "Service", "Namespace"} <= {o["kind"] for o in found.objects}
    for each in found.objects:
        assert len(each["metadata"]["name"]) <= limits.get(each["kind"], 253), each["metadata"]
        for value in each["metadata"].get("labels", {}).values():
            assert len(value) <= 63
