"""The Apptainer for tests: what `tests/apptainer/make-root` has made or found."""

import os
from pathlib import Path

from executor_service.backends.singularity.backend import SingularityOptions


def options() -> SingularityOptions:
    """Its program and image, whether they are there or not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "hermes-tests" / "apptainer"
    return SingularityOptions(str(folder / "sandbox.sif"), str(folder / "bin" / "apptainer"))
