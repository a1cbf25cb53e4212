"""The real Docker engine that tests use, or a visible skip where there is none.

Its SDK blocks: tests that have an event loop call it in threads.
"""

from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound

from tests.requirements import require

SANDBOX_IMAGE = "hermes-sandbox:latest"


def docker_client() -> docker.DockerClient:
    """A client of the engine, which has the sandbox image."""
    client, obstacle = None, ""
    try:
        client = docker.from_env(timeout=30)
        client.ping()
        client.images.get(SANDBOX_IMAGE)
    except ImageNotFound:
        obstacle = f"the engine has no image {SANDBOX_IMAGE}: run `make sandbox-image`"
    except DockerException as error:
        obstacle = f"no engine answers: {error}"
    require("docker", not obstacle, obstacle)
    assert client is not None
    return client


def run_in(client: docker.DockerClient, container: str, *argv: str) -> tuple[int, str]:
    """Run a command in a container as its own user; exit status and output."""
    result: Any = client.containers.get(container).exec_run(list(argv))
    return result.exit_code, result.output.decode(errors="replace").strip()
