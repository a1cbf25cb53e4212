"""The Apptainer for tests: what `tests/apptainer/make-root` has made or found."""

import os
from pathlib import Path

from executor_service.config import SingularityConfig


def options() -> SingularityConfig:
    """Its program and image, whether they are there or not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "hermes-tests" / "apptainer"
    return SingularityConfig(
        image=str(folder / "sandbox.sif"), program=str(folder / "bin" / "apptainer")
    )
