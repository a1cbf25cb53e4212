"""Boxes that are claimed from a warm pool of the cluster: whose they are, and what is not one."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from executor_service.backends.base import Box, BoxSpec, WorkspacePlace
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import pod_name
from executor_service.backends.kubernetes.reading import Json, part
from executor_service.errors import BoxCreateFailed, BoxLost
from tests.boxes import SMALL, new_spec, open_console
from tests.fakes.kubernetes.faults import Fault, erase
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.kubernetes.sandboxes import controlled_by
from tests.kubernetes_cluster import WARM_POOL, another_supervisor, backend_of, cluster

pytestmark = pytest.mark.slow

READY = 2


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with cluster(tmp_path_factory.mktemp("cluster"), SMALL, READY) as running:
        yield running


@pytest.fixture
def owner() -> str:
    return f"test {uuid.uuid4().hex}"


@pytest.fixture
async def backend(stand_in: StandIn, owner: str) -> AsyncIterator[KubernetesBackend]:
    backend = backend_of(stand_in, owner, warm_pool=WARM_POOL)
    yield backend
    stand_in.cluster.faults.clear()
    for box in await backend.list_boxes():
        await backend.destroy(box)
    await backend.close()


@pytest.fixture
def spec(owner: str, tmp_path: Path) -> BoxSpec:
    return new_spec(owner, tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - it comes true in another thread
            await asyncio.sleep(0.02)


def waiting(stand_in: StandIn) -> set[str]:
    """The sandboxes that can be claimed at once; their pods have the same names.

    A pod that ends with its claim may still be there, and is none of them.
    """
    pooled = [
        each
        for each in stand_in.cluster.store.select("sandboxes")
        if controlled_by(each, pool(stand_in))
    ]
    return {each["metadata"]["name"] for each in pooled if part(each, "status").get("podIPs")}


async def until_ready(stand_in: StandIn) -> None:
    """Wait until the pool is full."""
    await until(lambda: len(waiting(stand_in)) == READY)


def names(stand_in: StandIn, resource: str) -> list[str]:
    return [each["metadata"]["name"] for each in stand_in.cluster.store.select(resource)]


def pool(stand_in: StandIn) -> Json:
    return stand_in.cluster.store.get("sandboxwarmpools", WARM_POOL)


def claim_of(stand_in: StandIn, box: Box) -> Json:
    return stand_in.cluster.store.get("sandboxclaims", pod_name(box.key))


@contextmanager
def changed(thing: Json) -> Generator[Json]:
    """An object that is as it was again after the block."""
    before = deepcopy(thing["spec"])
    try:
        yield thing["spec"]
    finally:
        thing["spec"] = before


async def test_a_box_is_a_ready_pod_of_the_pool(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    first = await backend.create(spec)
    async with open_console(backend, first) as console:
        assert await console.output("pwd; id -u") == "/workspace\n1000"
    await until_ready(stand_in)
    ready = waiting(stand_in)
    second = await backend.create(await asyncio.to_thread(new_spec, spec.owner, spec.workspace))
    sandbox = claim_of(stand_in, second)["status"]["sandbox"]["name"]
    assert sandbox in ready
    assert second.native_id == stand_in.cluster.store.get("pods", sandbox)["metadata"]["uid"]
    assert {box.key for box in await backend.list_boxes()} == {first.key, second.key}
    made = [each for each in stand_in.cluster.seen if each.startswith(("POST", "DELETE", "PATCH"))]
    assert not [each for each in made if each.endswith("/pods") or "/pods/hermes" in each]


async def test_another_process_finds_the_box_with_its_secret(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    assert box.secret not in str(stand_in.cluster.store.select("pods"))
    assert box.secret not in str(claim_of(stand_in, box))
    later = backend_of(stand_in, spec.owner, warm_pool=WARM_POOL)
    assert await later.list_boxes() == [box]
    async with open_console(later, box) as console:
        assert await console.output("echo found") == "found"
    await later.close()


async def test_another_owner_neither_sees_nor_ends_it(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    stranger = backend_of(stand_in, "somebody-else", warm_pool=WARM_POOL)
    assert await stranger.list_boxes() == []
    await stranger.destroy(box)
    with pytest.raises(BoxLost):
        await stranger.connect(box)
    await stranger.close()
    assert await backend.list_boxes() == [box]


async def test_destroyed_nothing_of_it_is_left(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    sandbox = claim_of(stand_in, box)["status"]["sandbox"]["name"]
    await backend.destroy(box)
    assert names(stand_in, "sandboxclaims") == names(stand_in, "secrets") == []
    assert sandbox not in names(stand_in, "sandboxes") + names(stand_in, "pods")


async def test_a_pod_that_takes_the_place_of_a_lost_one_is_not_the_box(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    sandbox = claim_of(stand_in, box)["status"]["sandbox"]["name"]
    async with open_console(backend, box) as console:
        await stand_in.tell(lambda there: erase(there, sandbox))
        async with asyncio.timeout(5):
            await console.link.wait_ended()
    with pytest.raises(BoxLost):
        await backend.connect(box)
    await until(lambda: sandbox in names(stand_in, "pods"))
    with pytest.raises(BoxLost, match="another pod has its name"):
        await backend.connect(box)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("hostNetwork", True, "hostNetwork must not be set"),
        ("restartPolicy", "Always", 'restartPolicy must be "Never"'),
        ("runtimeClassName", "other", "runtimeClassName must not be set"),
    ],
)
async def test_a_pod_that_is_not_walled_in_is_nobody_s(
    backend: KubernetesBackend,
    stand_in: StandIn,
    spec: BoxSpec,
    field: str,
    value: object,
    complaint: str,
) -> None:
    """As if somebody had changed the template after the executor looked at it."""
    await until_ready(stand_in)
    pods = stand_in.cluster.store.select("pods")
    for pod in pods:
        pod["spec"][field] = value
    with pytest.raises(BoxCreateFailed, match=f"is no sandbox: {complaint}"):
        await backend.create(spec)
    assert await backend.list_boxes() == []
    assert names(stand_in, "sandboxclaims") == []
    for pod in pods:
        pod["spec"][field] = "Never" if field == "restartPolicy" else None


async def test_a_pod_with_a_network_is_nobody_s(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    store = stand_in.cluster.store
    (policy,) = store.select("networkpolicies")
    rules: list[Json] = [{}]
    with changed(policy) as opened:
        opened["egress"] = rules
        with pytest.raises(BoxCreateFailed, match=r"would have a network: the policy .* egress"):
            await backend.create(spec)
    assert names(stand_in, "sandboxclaims") == []


async def test_what_the_controller_says_is_told(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    nowhere = backend_of(stand_in, spec.owner, warm_pool="no-such")
    with pytest.raises(BoxCreateFailed, match='WarmPoolNotFound: SandboxWarmPool "no-such" not'):
        await nowhere.create(spec)
    await nowhere.close()
    stand_in.cluster.faults.append(Fault(403, "POST", "/secrets$"))
    with pytest.raises(BoxCreateFailed, match="made to fail"):
        await backend.create(spec)
    assert await backend.list_boxes() == []
    assert names(stand_in, "sandboxclaims") == []


async def test_an_empty_pool_is_no_obstacle(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    with changed(pool(stand_in)) as emptied:
        emptied["replicas"] = 0
        for sandbox in stand_in.cluster.store.select("sandboxes"):
            await stand_in.tell(lambda there, one=sandbox: there.remove("sandboxes", one))
        box = await backend.create(spec)
        sandbox = stand_in.cluster.store.get("sandboxes", pod_name(box.key))
    assert sandbox["metadata"]["labels"]["agents.x-k8s.io/launch-type"] == "cold"
    async with open_console(backend, box) as console:
        assert await console.output("echo made") == "made"


async def test_a_newer_supervisor_replaces_the_one_that_templates_mount(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    await backend.create(spec)
    name = "hermes-sandboxes-supervisor"
    there = stand_in.cluster.store.get("configmaps", name)
    ours = there["binaryData"]
    there["binaryData"] = another_supervisor()
    newer = backend_of(stand_in, spec.owner, warm_pool=WARM_POOL)
    await newer.create(await asyncio.to_thread(new_spec, spec.owner, spec.workspace))
    await newer.close()
    assert stand_in.cluster.store.get("configmaps", name)["binaryData"] == ours


async def refusal(stand_in: StandIn, **chosen: object) -> str:
    picky = backend_of(stand_in, "probe", **{"warm_pool": WARM_POOL, **chosen})
    found = await picky.probe()
    await picky.close()
    assert not found.available
    assert "\n" not in found.reason
    return found.reason


async def test_it_says_where_boxes_come_from(backend: KubernetesBackend) -> None:
    found = await backend.probe()
    assert found.available
    assert "claimed from the warm pool hermes" in found.reason
    assert found.workspaces is WorkspacePlace.IN_BOX


async def test_what_is_missing_is_told_and_no_pod_is_made_instead(stand_in: StandIn) -> None:
    there = stand_in.cluster
    template = there.store.get("sandboxtemplates", WARM_POOL)
    before = names(stand_in, "pods")
    there.has_agent_sandbox = False
    reason = await refusal(stand_in)
    assert "the cluster does not know extensions.agents.x-k8s.io/v1beta1" in reason
    assert "install agent-sandbox with its extensions, or unset" in reason
    there.has_agent_sandbox = True
    assert "has no sandboxwarmpools none" in await refusal(stand_in, warm_pool="none")
    assert "set only one of" in await refusal(stand_in, workspace_claim="claim")
    with changed(pool(stand_in)) as spec:
        spec["sandboxTemplateRef"]["name"] = "none"
        assert "has no sandboxtemplates none" in await refusal(stand_in)
    with changed(template) as spec:
        spec["podTemplate"]["spec"]["hostPID"] = True
        told = "in the SandboxTemplate hermes, hostPID must not be set: see the SandboxTemplate of"
        assert told in await refusal(stand_in)
    rights = there.rights
    left = [rule for rule in rights.rules if "sandboxclaims" not in rule["resources"]]
    there.rights = replace(rights, rules=left)
    assert "may not create sandboxclaims in the namespace" in await refusal(stand_in)
    there.rights = rights
    assert names(stand_in, "pods") == before


async def test_the_network_that_agent_sandbox_gives_by_itself_is_told(stand_in: StandIn) -> None:
    template = stand_in.cluster.store.get("sandboxtemplates", WARM_POOL)
    with changed(template) as spec:
        del spec["networkPolicyManagement"]
        await until(lambda: "hermes-network-policy" in names(stand_in, "networkpolicies"))
    reason = await refusal(stand_in)
    assert "the policy hermes-network-policy allows them" in reason
    stand_in.cluster.drop("networkpolicies", "hermes-network-policy")
