"""What the chart makes of two sets of values, as it was when somebody last looked at it.

`python -m tests.helm.test_golden` writes the files anew; look at what has changed.
"""

from pathlib import Path

import pytest
import yaml

from tests.helm.charts import rendered_set

GOLDEN = Path(__file__).with_name("golden")
KEPT = {
    "minimal": (
        "Deployment/hermes-agent",
        "StatefulSet/hermes-executor",
        "ConfigMap/hermes-config",
    ),
    "production": (
        "NetworkPolicy/hermes-executor",
        "ConfigMap/hermes-config",
        "Role/hermes-executor",
    ),
}
"""Few, so that a change of them is read."""


def shown(name: str) -> str:
    """The kept objects of a set, and the names of all others."""
    objects = {
        f"{each['kind']}/{each['metadata']['name']}": each for each in rendered_set(name).objects
    }
    names = "".join(f"# {each}\n" for each in sorted(objects))
    kept = [objects[each] for each in KEPT[name]]
    return names + yaml.dump_all(kept, Dumper=yaml.CSafeDumper, sort_keys=False, width=100)


@pytest.mark.parametrize("name", KEPT)
def test_the_chart_makes_what_it_made(name: str) -> None:
    kept = (GOLDEN / f"{name}.yaml").read_text("utf-8")
    assert shown(name) == kept, "see python -m tests.helm.test_golden"


if __name__ == "__main__":
    for each in KEPT:
        (GOLDEN / f"{each}.yaml").write_text(shown(each), "utf-8")
