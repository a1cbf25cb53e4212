"""Values that cannot be meant are refused, and the message says what is wrong."""

import helm_python
import pytest

from tests.helm.charts import Json, chart, rendered, with_values

BY_SCHEMA: dict[str, tuple[Json, str]] = {
    "a misspelt key": ({"agents": {}}, "additional properties 'agents' not allowed"),
    "a misspelt key inside": ({"agent__replica": 2}, "additional properties 'replica'"),
    "an unknown backend": ({"executor__backend": "local"}, "/executor/backend"),
    "an unknown way of certificates": ({"tls__mode": "none"}, "/tls/mode"),
    "certificates without names": ({"tls__mode": "existingSecret"}, "/tls/existingSecrets"),
    "ssh without a key": (
        {"executor__backend": "ssh", "executor__ssh": {"host": "h", "user": "u"}},
        "/executor/ssh",
    ),
    "modal without a token": ({"executor__backend": "modal"}, "/executor/modal"),
    "an engine by TCP without TLS": (
        {"executor__backend": "docker", "executor__docker": {"host": "tcp://engine:2376"}},
        "/executor/docker",
    ),
    "an engine without an address": ({"executor__backend": "docker"}, "/executor/docker"),
    "the tag latest": ({"image__tag": "latest"}, "/image/tag"),
    "a digest that is none": ({"agent__image__digest": "sha256:abc"}, "/agent/image/digest"),
    "a number as text": ({"agent__replicas": "2"}, "/agent/replicas"),
    "too long a pause": ({"preStopSeconds": 20}, "/preStopSeconds"),
    "hosts that nothing allows": ({"sandbox__egress__hosts": ["x.org"]}, "/sandbox/egress/mode"),
    "a kernel of its own without a class": (
        {"sandbox__isolation": "userspace_kernel"},
        "/sandbox/runtimeClassName",
    ),
    "a secret without a store": (
        {"externalSecrets": {"enabled": True, "secrets": {"a": {"b": {"key": "c"}}}}},
        "/externalSecrets/secretStoreRef",
    ),
    "a name that no batch can have": ({"batch__name": "a b"}, "/batch/name"),
    "a variable in small letters": (
        {"gateway__secret": {"existingSecret": "a", "keys": ["token"]}},
        "/gateway/secret/keys",
    ),
}
BY_TEMPLATE: dict[str, tuple[Json, str]] = {
    "no database": ({"database__existingSecret": ""}, "postgresql.enabled: true"),
    "two databases": ({"postgresql__enabled": True}, "only one of postgresql.enabled"),
    "sandboxes beside the services": ({"sandbox__namespace__name": "hermes"}, "another namespace"),
    "secrets that all services would get": (
        {
            "config": {
                "model": {"default": "scripted", "max_tokens": 100},
                "platforms": {"telegram": {"token": "1:two"}},
                "providers": {"mine": {"api_key": "three", "key_env": "MY_KEY"}},
                "services": {
                    "database": {"url": "postgresql://a:four@db/hermes"},
                    "tracing": {"headers": "authorization=five"},
                },
            }
        },
        (
            "secrets: config.platforms.telegram.token config.providers.mine.api_key "
            "config.services.database.url config.services.tracing.headers; name Secrets instead in "
            "database.existingSecret and in secret of agent, executor, gateway and scheduler,"
        ),
    ),
    "keys of no Secret": (
        {"agent__secret__keys": ["OPENAI_API_KEY"]},
        "agent.secret.existingSecret",
    ),
    "keys of no Secret of an executor": (
        {"executor__secret__keys": ["HERMES_TRACING_HEADERS"]},
        "executor.secret.existingSecret",
    ),
    "values of no Secret": (
        {"sandbox__egress__secrets": {"TOKEN": ["api.example.org"]}},
        "sandbox.egress.existingSecret",
    ),
    "two monitors": (
        {"metrics__serviceMonitor__enabled": True, "metrics__podMonitor__enabled": True},
        "enable only one",
    ),
    "fewer than the least": (
        {"agent__autoscaling": {"minReplicas": 4, "maxReplicas": 3}},
        "minReplicas is more",
    ),
    "a scaler that is not turned on": (
        {"gateway__autoscaling": {"keda": {"enabled": True, "triggers": [{"type": "cpu"}]}}},
        "set gateway.autoscaling.enabled too",
    ),
    "a batch without a data set": ({"batch__name": "first"}, "either a ConfigMap in batch"),
    "a batch with two": (
        {"batch": {"name": "first", "configMap": "a", "claim": "b"}},
        "either a ConfigMap in batch",
    ),
    "a scaler without triggers": (
        {"agent__autoscaling": {"enabled": True, "keda": {"enabled": True}}},
        "keda needs triggers",
    ),
}


@pytest.mark.parametrize("case", BY_SCHEMA)
def test_the_schema_refuses(case: str) -> None:
    changes, message = BY_SCHEMA[case]
    values: Json = with_values("minimal", **changes)
    with pytest.raises(helm_python.HelmValuesError) as refused:
        chart().validate_schema(values)
    assert message in str(refused.value)
    with pytest.raises(helm_python.HelmError):
        rendered(values)


@pytest.mark.parametrize("case", BY_TEMPLATE)
def test_templates_refuse_what_no_schema_can(case: str) -> None:
    changes, message = BY_TEMPLATE[case]
    values: Json = with_values("minimal", **changes)
    chart().validate_schema(values)
    with pytest.raises(helm_python.HelmRenderError, match=message):
        rendered(values)
