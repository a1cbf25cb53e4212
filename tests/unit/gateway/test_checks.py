"""What `hermes doctor` says of platforms that nobody has finished to configure."""

from pathlib import Path

from gateway_service.accounts.checks import checks
from services.runtime.checks import Verdict
from tests.unit.services.settings import settings


async def test_what_is_missing_of_a_platform_is_named(tmp_path: Path) -> None:
    [found] = await checks(settings(tmp_path, environ={"MATRIX_ACCESS_TOKEN": "syt_1"}))
    assert (found.name, found.verdict) == ("matrix", Verdict.NOTE)
    assert found.message == "off; it needs MATRIX_USER_ID and MATRIX_ACCESS_TOKEN"


async def test_without_any_platform_setup_is_named(tmp_path: Path) -> None:
    [found] = await checks(settings(tmp_path))
    assert (found.name, "hermes setup" in found.message) == ("platforms", True)
