"""What custom resources may say, of the fields that the chart uses: no other key, no other form.

Written by hand after what cert-manager, Cilium, External Secrets, KEDA and the Prometheus Operator
define: the registries that tests reach have packages of some of these only, and old ones.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "string", "minLength": 1}
_YES_OR_NO: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_DURATION: Json = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"}
"""As Go reads one."""
_TIME: Json = {
    "type": "string",
    "pattern": "^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
}
"""As Prometheus reads one."""


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def _list(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def _of(required: str = "", /, **properties: Json) -> Json:
    """An object with these keys, of which some must be there."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def _one_of(*values: str) -> Json:
    return {"enum": list(values)}


_LABELS = _map({"type": "string", "maxLength": 63})
_SELECTOR = _of(
    matchLabels=_LABELS,
    matchExpressions=_list(
        _of(
            "key operator",
            key=_TEXT,
            operator=_one_of("In", "NotIn", "Exists", "DoesNotExist"),
            values=_list(_TEXT),
        )
    ),
)
_ENDPOINT = _of(
    port=_TEXT,
    path=_TEXT,
    interval=_TIME,
    honorLabels=_YES_OR_NO,
    relabelings=_list(
        _of(
            sourceLabels=_list({"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}),
            targetLabel=_TEXT,
        )
    ),
)
_RULE = _of(
    "expr", alert=_TEXT, expr=_TEXT, labels=_map(_TEXT), annotations=_map(_TEXT), **{"for": _TIME}
)
_SCALING = _of(
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    selectPolicy=_one_of("Max", "Min", "Disabled"),
    policies=_list(
        _of(
            "type value periodSeconds",
            type=_one_of("Pods", "Percent"),
            value=_COUNT,
            periodSeconds={"type": "integer", "minimum": 1, "maximum": 1800},
        )
    ),
)
_ISSUER_REF = _of("name", name=_TEXT, kind=_one_of("Issuer", "ClusterIssuer"), group=_TEXT)
_NAMED = {
    "oneOf": [
        _of("matchName", matchName={"type": "string", "pattern": "^([-a-zA-Z0-9_]+[.]?)+$"}),
        _of("matchPattern", matchPattern={"type": "string", "pattern": "^([-a-zA-Z0-9_*]+[.]?)+$"}),
    ]
}
_TO_PORTS = _of(
    ports=_list(
        _of(
            "port",
            port={"type": "string", "pattern": "^[0-9]{1,5}$"},
            protocol=_one_of("TCP", "UDP", "SCTP", "ANY"),
        ),
        maxItems=40,
    ),
    rules=_of(dns=_list(_NAMED)),
)

SPECS: Mapping[tuple[str, str], Json] = {
    ("cert-manager.io/v1", "Issuer"): {
        "oneOf": [
            _of("selfSigned", selfSigned=_of()),
            _of("ca", ca=_of("secretName", secretName=_TEXT)),
        ]
    },
    ("cert-manager.io/v1", "Certificate"): _of(
        "secretName issuerRef",
        isCA=_YES_OR_NO,
        commonName={"type": "string", "maxLength": 64},
        secretName=_TEXT,
        duration=_DURATION,
        renewBefore=_DURATION,
        uris=_list(_TEXT),
        dnsNames=_list(_TEXT),
        usages=_list(
            _one_of("digital signature", "key encipherment", "server auth", "client auth")
        ),
        privateKey=_of(
            algorithm=_one_of("RSA", "ECDSA", "Ed25519"),
            size=_COUNT,
            rotationPolicy=_one_of("Never", "Always"),
        ),
        issuerRef=_ISSUER_REF,
    ),
    ("cilium.io/v2", "CiliumNetworkPolicy"): _of(
        "endpointSelector egress",
        endpointSelector=_SELECTOR,
        egress=_list(
            _of(toEndpoints=_list(_SELECTOR), toFQDNs=_list(_NAMED), toPorts=_list(_TO_PORTS))
        ),
    ),
    ("external-secrets.io/v1", "ExternalSecret"): _of(
        "secretStoreRef target data",
        refreshInterval=_DURATION,
        secretStoreRef=_of("name", name=_TEXT, kind=_one_of("SecretStore", "ClusterSecretStore")),
        target=_of("name", name=_TEXT),
        data=_list(
            _of(
                "secretKey remoteRef",
                secretKey={"type": "string", "pattern": "^[-._a-zA-Z0-9]{1,253}$"},
                remoteRef=_of("key", key=_TEXT, property=_TEXT, version=_TEXT),
            )
        ),
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): _of(
        "scaleTargetRef triggers",
        scaleTargetRef=_of("name", apiVersion=_TEXT, kind=_TEXT, name=_TEXT),
        minReplicaCount=_COUNT,
        maxReplicaCount=_COUNT,
        advanced=_of(
            horizontalPodAutoscalerConfig=_of(behavior=_of(scaleUp=_SCALING, scaleDown=_SCALING))
        ),
        triggers=_list(_of("type metadata", type=_TEXT, metadata=_map({"type": "string"}))),
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _of(
        "selector endpoints", jobLabel=_TEXT, selector=_SELECTOR, endpoints=_list(_ENDPOINT)
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): _of(
        "selector podMetricsEndpoints",
        jobLabel=_TEXT,
        selector=_SELECTOR,
        podMetricsEndpoints=_list(_ENDPOINT),
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): _of(
        "groups", groups=_list(_of("name", name=_TEXT, interval=_TIME, rules=_list(_RULE)))
    ),
}
"""By apiVersion and kind."""
