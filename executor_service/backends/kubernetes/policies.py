"""Whether the network policies of a namespace leave boxes without any network.

Rules of several policies add up: what one allows, no other forbids.
"""

from collections.abc import Iterable, Iterator, Mapping

from executor_service.backends.kubernetes.reading import Json, part, parts

_DIRECTIONS = {"Ingress": "ingress", "Egress": "egress"}


def holes(
    policies: Iterable[Json], labels: Mapping[str, str], varying: frozenset[str]
) -> Iterator[str]:
    """What is missing for boxes with these labels to have no network, one line each.

    The labels in `varying` are another box's too, with any value.
    """
    policies = list(policies)
    for direction, field in _DIRECTIONS.items():
        denies = [
            policy
            for policy in policies
            if direction in _types(policy) and _selects(policy, labels, varying, unsure=False)
        ]
        if not denies:
            yield f"no policy denies {field} to the pods of sandboxes"
        for policy in policies:
            may_select = _selects(policy, labels, varying, unsure=True)
            if may_select and direction in _types(policy) and policy["spec"].get(field):
                yield f"the policy {policy['metadata']['name']} allows them {field}"


def _types(policy: Json) -> list[str]:
    declared = policy["spec"].get("policyTypes")
    if declared:
        return declared
    return ["Ingress", "Egress"] if policy["spec"].get("egress") else ["Ingress"]


def _selects(
    policy: Json, labels: Mapping[str, str], varying: frozenset[str], *, unsure: bool
) -> bool:
    """Whether it selects every box, or, where one cannot be sure, may select one."""
    wanted: list[Json] = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in part(policy, "spec", "podSelector", "matchLabels").items()
    ]
    wanted += parts(policy, "spec", "podSelector", "matchExpressions")
    return all(
        unsure if each["key"] in varying else _matches(each, labels.get(each["key"]))
        for each in wanted
    )


def _matches(expression: Json, value: str | None) -> bool:
    values = expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(expression["operator"], False)
