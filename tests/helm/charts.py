"""The chart as Helm's own engine renders it, each of its sets of values once."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, cast

import helm_python
import yaml

from tests.support.markdown import ROOT

Json = dict[str, Any]

CHART = ROOT / "helm" / "hermes"
RELEASE = NAMESPACE = "hermes"
SETS = tuple(
    sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
)
"""The names of the sets of values that the chart is tried with."""
SERVICES = ("agent", "executor", "gateway", "scheduler")
CALLS = {"agent": 7401, "executor": 7402, "gateway": 7403, "scheduler": 7404}
"""At which port each service answers calls."""
WORKLOADS = ("Deployment", "StatefulSet", "Job", "CronJob", "Pod")


class Rendered:
    """What comes of one set of values."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = {name.removeprefix("hermes/templates/"): text for name, text in files.items()}
        self.objects = list(self._objects())

    def _objects(self) -> Iterator[Json]:
        for name, text in sorted(self.files.items()):
            if name.endswith(".yaml"):
                yield from filter(None, load_all(text))

    def of(self, *kinds: str) -> list[Json]:
        """All objects of these kinds."""
        return [each for each in self.objects if each["kind"] in kinds]

    def one(self, kind: str, name: str) -> Json:
        """The only object of a kind with a name."""
        (found,) = [each for each in self.of(kind) if each["metadata"]["name"] == name]
        return found

    def service(self, name: str) -> Json:
        """What runs the pods of a service."""
        return self.one("StatefulSet" if name == "executor" else "Deployment", f"{RELEASE}-{name}")

    @property
    def config(self) -> Json:
        """The config.yaml of the services."""
        return yaml.safe_load(self.one("ConfigMap", f"{RELEASE}-config")["data"]["config.yaml"])


def load_all(text: str) -> list[Json]:
    """The documents of a YAML text, as the API server reads it."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def values_of(name: str) -> Json:
    """One set of values."""
    return yaml.safe_load((CHART / "ci" / f"{name}-values.yaml").read_text("utf-8"))


@cache
def chart() -> helm_python.Chart:
    """The chart, loaded."""
    return helm_python.Chart.load(CHART)


def rendered(values: Json, of: helm_python.Chart | None = None, **how: Any) -> Rendered:
    """What comes of values."""
    files = (of or chart()).render(values, name=RELEASE, namespace=NAMESPACE, **how)
    return Rendered(files)


@cache
def rendered_set(name: str) -> Rendered:
    """What comes of one of the sets; not to be changed."""
    return rendered(values_of(name))


def pod_template(workload: Json) -> Json:
    """The pods that an object makes, as if each were one, with their namespace."""
    inner = workload
    if workload["kind"] == "CronJob":
        inner = workload["spec"]["jobTemplate"]
    template = workload if workload["kind"] == "Pod" else inner["spec"]["template"]
    pod = deepcopy(template)
    pod["metadata"]["namespace"] = workload["metadata"]["namespace"]
    return pod


def containers_of(pod: Json) -> list[Json]:
    """All containers of a pod."""
    spec = pod["spec"]
    return [*spec.get("initContainers", ()), *spec["containers"]]


def with_values(name: str, **changes: Any) -> Json:
    """A set of values with some others: `executor__backend="ssh"` is executor.backend."""
    values = deepcopy(values_of(name))
    for path, value in changes.items():
        *outer, last = path.split("__")
        inner = values
        for key in outer:
            inner = cast("Json", inner.setdefault(key, {}))
        inner[last] = value
    return values


def folder_of(copy: Path) -> helm_python.Chart:
    """A chart of another folder."""
    return helm_python.Chart.load(copy)
