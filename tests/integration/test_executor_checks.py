"""What `hermes doctor` says of the backends."""

import asyncio
import sys
from pathlib import Path

from executor_service.backends import AUTOMATIC, BACKENDS
from executor_service.servicer.checks import ADVICE, checks
from services.config.settings import Settings
from services.runtime.checks import Check, Verdict
from tests.fakes.modal.service import modal_service
from tests.support.executors import executor_settings
from tests.support.ports import free_port
from tests.support.requirements import require

OFF_COSTS_NOTHING = """
import asyncio, sys
from executor_service.servicer.checks import checks
from services.config.settings import load_settings
settings = load_settings({}, {"HERMES_HOME": sys.argv[1], "HOME": sys.argv[1]})
asyncio.run(checks(settings, ("docker", "bubblewrap")))
print({"docker", "kubernetes", "modal", "paramiko"} & set(sys.modules))
"""


async def found(settings: Settings) -> dict[str, Check]:
    """What is said of each backend, by its name."""
    said = await checks(settings, AUTOMATIC)
    return {check.message.replace(":", " ").split()[0]: check for check in said}


async def test_every_backend_is_tried_or_said_how_to_turn_on(tmp_path: Path) -> None:
    assert set(BACKENDS) == {*AUTOMATIC, *ADVICE}
    said = await found(executor_settings(tmp_path, ""))
    assert set(said) == set(ADVICE)
    for name, check in said.items():
        assert check.verdict is Verdict.OFF
        assert f"terminal.backend: {name}" in check.message
        assert "\n" not in check.message


async def test_a_backend_that_is_off_costs_no_import(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OFF_COSTS_NOTHING, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"set()\n")


async def test_what_is_configured_is_really_tried(tmp_path: Path) -> None:
    nobody = free_port()
    environ = {"HERMES_SSH_HOST": "127.0.0.1", "HERMES_SSH_PORT": str(nobody)}
    refused = (await found(executor_settings(tmp_path, "", **environ)))["ssh"]
    assert refused.verdict is Verdict.NOTE
    assert "cannot be used" in refused.message
    assert str(nobody) in refused.message


async def test_a_backend_that_works_is_said_to(tmp_path: Path) -> None:
    async with modal_service(tmp_path / "cloud") as service:
        require("modal", not service.obstacle, service.obstacle)
        token_id, token_secret = service.token
        environ = {
            "MODAL_TOKEN_ID": token_id,
            "MODAL_TOKEN_SECRET": token_secret,
            "HERMES_MODAL_SERVER_URL": service.url,
        }
        works = (await found(executor_settings(tmp_path, "", **environ)))["modal"]
    assert works.verdict is Verdict.OK
    assert "isolation userspace_kernel" in works.message
