"""Every object is one that the API servers of three versions of Kubernetes would read."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, cast

import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator
from kubernetes_validate.utils import all_versions, major_minor, schema_contents
from referencing import Registry, Resource

from tests.helm.charts import SETS, Json, rendered_set
from tests.helm.custom_resources import SPECS

VERSIONS = ("1.34", "1.36", "1.37")
GROUPS = {version for version, _ in SPECS}
"""Of custom resources, which Kubernetes does not know by itself."""


def is_custom(thing: Json) -> bool:
    return thing["apiVersion"] in GROUPS


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
            if not is_custom(each):
                problem = schemas.problem(each)
                assert not problem, f"{name}: {each['kind']} {each['metadata']['name']}: {problem}"
                count += 1
    assert count >= 250


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_valid_is_what_kubernetes_validate_says(version: str) -> None:
    schemas = Schemas(version)
    for kind in ("Deployment", "Role", "Service"):
        good = rendered_set("minimal").of(kind)[0]
        kubernetes_validate.validate(good, version, strict=True)
        bad = {**good, "surprise": True}
        with pytest.raises(kubernetes_validate.ValidationError) as refused:
            kubernetes_validate.validate(bad, version, strict=True)
        assert (schemas.problem(good), schemas.problem(bad)) == ("", refused.value.message)


def problems(thing: Json) -> list[str]:
    """What a custom resource says that its definition does not have."""
    spec = SPECS[thing["apiVersion"], thing["kind"]]
    return [
        f"{each.json_path}: {each.message}"
        for each in Draft202012Validator(spec).iter_errors(thing["spec"])
    ]


@pytest.mark.parametrize("name", SETS)
def test_custom_resources_are_as_they_are_defined(name: str) -> None:
    for each in filter(is_custom, rendered_set(name).objects):
        assert problems(each) == [], each["metadata"]["name"]


def test_each_kind_is_made_and_no_other_key_is_let_through() -> None:
    made = {
        (each["apiVersion"], each["kind"]): each
        for name in SETS
        for each in filter(is_custom, rendered_set(name).objects)
    }
    assert made.keys() == SPECS.keys()
    for each in made.values():
        for place in range(len(list(objects_in(each["spec"])))):
            changed = deepcopy(each)
            list(objects_in(changed["spec"]))[place]["surprise"] = {"of": "the test"}
            assert problems(changed), (each["kind"], place)


def objects_in(value: Any) -> Iterator[Json]:
    """The value and what it holds, as far as these are objects."""
    if isinstance(value, dict):
        yield cast("Json", value)
        value = list(cast("Json", value).values())
    for each in cast("list[Any]", value) if isinstance(value, list) else ():
        yield from objects_in(each)


@pytest.mark.parametrize("name", SETS)
def test_no_name_is_given_twice(name: str) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in rendered_set(name).objects
    ]
    assert len(names) == len(set(names))
