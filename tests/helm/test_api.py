"""Every object is one that the API servers of three versions of Kubernetes would read."""

import json

import kubernetes_validate
import pytest

from tests.helm.charts import SETS, Json, rendered_set

VERSIONS = ("1.34", "1.36", "1.37")
DEFINED_ELSEWHERE = {
    "cert-manager.io/v1": {"Certificate": {"secretName", "issuerRef"}, "Issuer": set[str]()},
    "cilium.io/v2": {"CiliumNetworkPolicy": {"endpointSelector", "egress"}},
    "external-secrets.io/v1": {"ExternalSecret": {"secretStoreRef", "target", "data"}},
    "keda.sh/v1alpha1": {"ScaledObject": {"scaleTargetRef", "triggers"}},
    "monitoring.coreos.com/v1": {
        "PodMonitor": {"selector", "podMetricsEndpoints"},
        "ServiceMonitor": {"selector", "endpoints"},
        "PrometheusRule": {"groups"},
    },
}
"""Custom resources that the chart may make, with what their spec must have."""


def is_custom(thing: Json) -> bool:
    return thing["apiVersion"] in DEFINED_ELSEWHERE


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid(version: str) -> None:
    # Most are the same in several sets, and reading the schemas takes its time.
    own = {
        json.dumps(each): (name, each)
        for name in SETS
        for each in rendered_set(name).objects
        if not is_custom(each)
    }
    assert len(own) >= 90
    for name, each in own.values():
        try:
            kubernetes_validate.validate(each, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            pytest.fail(f"{name}: {each['kind']} {each['metadata']['name']}: {error.message}")


@pytest.mark.parametrize("name", SETS)
def test_custom_resources_are_known_and_complete(name: str) -> None:
    for each in filter(is_custom, rendered_set(name).objects):
        needed = DEFINED_ELSEWHERE[each["apiVersion"]][each["kind"]]
        assert needed <= each["spec"].keys(), each["metadata"]["name"]


@pytest.mark.parametrize("name", SETS)
def test_no_name_is_given_twice(name: str) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in rendered_set(name).objects
    ]
    assert len(names) == len(set(names))


def test_what_no_server_knows_is_refused() -> None:
    thing = {**rendered_set("minimal").service("agent")}
    thing["spec"] = {**thing["spec"], "replica": 2}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(thing, VERSIONS[0], strict=True)
