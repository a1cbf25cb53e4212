"""Each service's policy against the contracts: a rule for each method served, and for no other."""

import importlib
from pathlib import Path

import pytest

from services.rpc.auth import Identity, Policy
from tests.unit.services.descriptors import methods

ROOT = Path(__file__).resolve().parents[2]
APPS = sorted(path.parent.name for path in ROOT.glob("*_service/app.py"))


def policy_of(service: str) -> Policy:
    return importlib.import_module(f"{service}.app").POLICY


@pytest.mark.parametrize("service", APPS)
def test_each_rule_names_a_method_of_the_service(service: str) -> None:
    package = f"/hermes.{service.removesuffix('_service')}."
    rules = set(policy_of(service))
    assert rules <= set(methods())
    assert all(method.startswith(package) for method in rules)


@pytest.mark.parametrize("service", APPS)
def test_each_method_beside_a_rule_has_a_rule(service: str) -> None:
    rules = set(policy_of(service))
    served = {method.rpartition("/")[0] for method in rules}
    assert {method for method in methods() if method.rpartition("/")[0] in served} == rules


@pytest.mark.parametrize("service", APPS)
def test_each_rule_lets_somebody_in_and_not_everybody(service: str) -> None:
    for method, callers in policy_of(service).items():
        assert callers, method
        assert callers < set(Identity), method
