"""`hermes doctor --cluster`, run in what a pod is restricted to, against four services."""

import struct
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.backends.bubblewrap.host import find_host
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import (
    SERVICES,
    Deployment,
    four_processes,
    make_certificates,
    running,
    tls_of,
)
from tests.e2e.home import Home, Result
from tests.e2e.nodes import need_nodes

ALLOW_ALL = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
"""A filter of system calls that lets all of them pass: a filter is what is asked for."""
IN_A_POD = (
    'exec "$0" --unshare-user --uid 10000 --gid 10000 --cap-drop ALL --seccomp 9'
    ' --ro-bind / / --dev-bind /dev /dev --proc /proc --bind "$1" "$1" "${@:3}" 9<"$2"'
)


@contextmanager
def network() -> Generator[Sequence[str]]:
    """What runs a program in a network of its own, which leads nowhere."""
    need_nodes()
    holds = "ip link set lo up && echo up && exec sleep infinity"
    words = ("unshare", "--net", "sh", "-c", holds)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"up\n"
            yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        finally:
            holder.kill()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Four services, each with its certificate, and no way to anywhere else."""
    folder = tmp_path_factory.mktemp("cluster")
    config = sandboxed(need_backend("bubblewrap", folder))
    made = four_processes(folder, "http://127.0.0.1:1/v1", config)
    with network() as entered:
        for server in made.servers.values():
            server.home = replace(server.home, prefix=entered)
        client = replace(made.client, prefix=entered)
        with running(Deployment(client, made.servers, folder)) as started:
            yield started


@pytest.fixture(scope="module")
def pod(services: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The operator's home, for a user without rights, on files that cannot be written."""
    filters = tmp_path_factory.mktemp("filters") / "allow-all"
    filters.write_bytes(ALLOW_ALL)
    program, home = find_host().bubblewrap, services.client
    words = (program.folder / program.name, home.path.parent, filters)
    return replace(home, prefix=(*home.prefix, "bash", "-c", IN_A_POD, *map(str, words)))


def told(result: Result) -> Mapping[str, list[str]]:
    """The messages of each check that has failed."""
    failed = [each for each in result.json if each["verdict"] == "failed"]
    return {
        name: [each["message"] for each in failed if each["check"] == name]
        for name in {each["check"] for each in failed}
    }


def test_where_all_is_well_it_says_so(pod: Home) -> None:
    result = pod.run("doctor", "--cluster", "--json")
    assert told(result) == {}
    assert result.status == 0
    messages = {(each["check"], each["message"].partition(" at ")[0]) for each in result.json}
    assert {("services", f"{name} answers") for name in SERVICES} <= messages
    assert ("pod", "restricted, user 10000, read-only root file system") in messages
    assert {"certificate", "network", "trial"} <= {check for check, _ in messages}


def test_a_service_that_is_down_is_named_with_what_to_do(services: Deployment, pod: Home) -> None:
    services.servers["scheduler"].kill()
    try:
        result = pod.run("doctor", "--cluster")
    finally:
        services.start()
    assert result.status == 1
    (line,) = [line for line in result.out.splitlines() if line.startswith("✗")]
    assert "the scheduler service at 127.0.0.1:" in line
    assert "start it with hermes serve scheduler, or the container that does" in line


def test_a_certificate_of_others_is_refused_with_what_to_do(pod: Home, tmp_path: Path) -> None:
    strange = pod.set(**tls_of(make_certificates(tmp_path, ()), "operator"))
    result = strange.run("doctor", "--cluster", "--json")
    assert result.status == 1
    silent = told(result)["services"]
    assert len(silent) == len(SERVICES)
    assert all("issuer certificate); take certificates of one CA" in each for each in silent)
