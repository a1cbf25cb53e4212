"""The Role of the documentation: the executor can do with it, and with nothing less."""

import asyncio
import uuid
from pathlib import Path

import pytest

from tests.fakes.kubernetes.running import StandIn
from tests.support.boxes import new_spec, open_console
from tests.support.kubernetes_cluster import backend_of

pytestmark = pytest.mark.slow


async def test_each_right_of_the_documented_role_is_needed_and_no_other(
    stand_in: StandIn, tmp_path: Path
) -> None:
    there = stand_in.cluster
    owner = f"test-{uuid.uuid4().hex}"
    backend = backend_of(stand_in, owner)
    assert (await backend.probe()).available
    box = await backend.create(await asyncio.to_thread(new_spec, owner, tmp_path))
    async with open_console(backend, box) as console:
        assert await console.output("echo here") == "here"
    assert await backend.list_boxes() == [box]
    await backend.destroy(box)
    await backend.close()
    documented = {
        (verb, group, resource)
        for rule in there.rights.rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert there.rights.used == documented
