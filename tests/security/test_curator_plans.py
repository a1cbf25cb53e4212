"""A model that asks the curator for what is forbidden, again and again, on a real library."""

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from skills_ref import validate

from agent_service.profiles.curation.changes import Kind
from tests.support.curation import FREE, PROTECTED, apply, fill, hostile_plan, of_skill, tree
from tests.support.skills import usage


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_hostile_plans_change_nothing_protected_and_delete_nothing(
    tmp_path: Path, count: int
) -> None:
    chance = random.Random(7)
    root = fill(tmp_path)
    changed = refused = 0
    for number in range(count):
        before, records = tree(root), usage(root)
        kept = {name: of_skill(before, name) for name in PROTECTED}
        jobs = frozenset(chance.sample(FREE, 2))
        report = apply(tmp_path, hostile_plan(chance), run_id=f"run-{number}", jobs=jobs)
        after = tree(root)
        assert {name: of_skill(after, name) for name in PROTECTED} == kept
        # Whatever a skill said is said somewhere still.
        texts = "\n".join(data.decode() for path, data in after.items() if path != ".usage.json")
        assert all(f"the api of {name}\n" in texts for name in (*FREE, *PROTECTED))
        assert not [
            done for done in report.changes if done.kind is Kind.PRUNED and done.name in jobs
        ]
        refused += sum(not {each.name, each.into}.isdisjoint(PROTECTED) for each in report.refusals)
        # That they are known from now on is all that is recorded of them.
        assert _of_protected(usage(root)) == _of_protected(records)
        assert before[".bundled_manifest"] == after[".bundled_manifest"]
        assert before[".hub/lock.json"] == after[".hub/lock.json"]
        if report.changes:
            changed += 1
            own = [path.parent for path in root.glob("[!.]*/**/SKILL.md")]
            assert {folder.name: validate(folder) for folder in own if validate(folder)} == {}
            shutil.rmtree(tmp_path)
            fill(tmp_path, protected_in=chance.choice(["", "dev/", "own/"]))
    assert changed > count / 20
    assert refused > count, "plans ask for protected skills"


def _of_protected(records: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is recorded of protected skills beside the defaults."""
    unset = (None, 0, False, "active")
    return {
        name: {key: value for key, value in record.items() if value not in unset}
        | {"created_at": 0}
        for name, record in records.items()
        if name in PROTECTED
    } | {name: {"created_at": 0} for name in PROTECTED if name not in records}
