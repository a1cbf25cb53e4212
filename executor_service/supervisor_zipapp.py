"""The supervisor as one file that any Python of a box can run."""

import hashlib
import io
import os
import zipfile
from importlib import resources
from pathlib import Path

_PACKAGE = "executor_service/supervisor"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_STUB_INIT = ""


def build_zipapp() -> bytes:
    """The zip file's bytes: the same for the same sources, whenever and wherever built."""
    sources = {
        f"{_PACKAGE}/{entry.name}": entry.read_text(encoding="utf-8")
        for entry in resources.files("executor_service.supervisor").iterdir()
        if entry.name.endswith(".py")
    }
    sources["executor_service/__init__.py"] = _STUB_INIT
    sources["__main__.py"] = sources[f"{_PACKAGE}/__main__.py"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(sources):
            archive.writestr(zipfile.ZipInfo(name, _FIXED_TIME), sources[name])
    return buffer.getvalue()


def install_zipapp(content: bytes, folder: Path) -> Path:
    """Put the zip file into folder under a name made from its content; does nothing if there."""
    target = folder / f"supervisor-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    if not target.exists():
        part = folder / f".{target.name}.{os.getpid()}"
        part.write_bytes(content)
        part.chmod(0o444)
        part.replace(target)
    return target
