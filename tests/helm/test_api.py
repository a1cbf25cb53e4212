"""Every object is one that the API servers of three versions of Kubernetes would read."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from kubernetes_validate.utils import all_versions, major_minor, schema_contents
from referencing import Registry, Resource

from tests.helm.charts import SETS, Json, rendered_set

VERSIONS = ("1.34", "1.36", "1.37")
CUSTOM = ("cert-manager.io", "cilium.io", "external-secrets.io", "keda.sh", "monitoring.coreos.com")
"""Groups of resources that Kubernetes does not know by itself."""


class Schemas:
    """What `kubernetes-validate --strict` goes by; it reads all of it anew for each object."""

    def __init__(self, version: str) -> None:
        full = next(each for each in all_versions() if major_minor(each) == version)
        self._folder = f"kubernetes-json-schema/v{full}-local-strict"
        self._version = version
        definitions = Resource[Any].from_contents(self._read("_definitions"))
        self._registry = definitions @ Registry[Any]()
        self._validators: dict[tuple[str, str], Draft202012Validator] = {}

    def _read(self, name: str) -> Any:
        return schema_contents(f"{self._folder}/{name}.json", self._version)

    def problem(self, thing: Json) -> str:
        """What is wrong with an object; empty when nothing is."""
        group, _, version = thing["apiVersion"].rpartition("/")
        kind = (thing["kind"].lower(), "-".join(filter(None, (group.partition(".")[0], version))))
        if kind not in self._validators:
            schema = self._read("-".join(kind))
            self._validators[kind] = Draft202012Validator(schema, registry=self._registry)
        return next((each.message for each in self._validators[kind].iter_errors(thing)), "")


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid(version: str) -> None:
    schemas, count = Schemas(version), 0
    for name in SETS:
        for each in rendered_set(name).objects:
            if each["apiVersion"].partition("/")[0] not in CUSTOM:
                problem = schemas.problem(each)
                assert not problem, f"{name}: {each['kind']} {each['metadata']['name']}: {problem}"
                count += 1
    assert count >= 250


def test_a_key_that_no_api_server_knows_is_seen() -> None:
    bad = {**rendered_set("minimal").of("Deployment")[0], "surprise": True}
    assert "surprise" in Schemas(VERSIONS[0]).problem(bad)


@pytest.mark.parametrize("name", SETS)
def test_no_name_is_given_twice(name: str) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in rendered_set(name).objects
    ]
    assert len(names) == len(set(names))
