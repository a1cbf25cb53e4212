"""The supervisor as one file that any Python of a box can run, and how it is laid out in boxes.

Boxes get it unpacked, and compiled for our own version of Python: reading and compiling the zip
file took longer than the rest of a start.
"""

import hashlib
import io
import marshal
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from importlib import resources
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

PROGRAM = "__main__.py"
"""What Python runs of the unpacked supervisor."""
_PACKAGE = "executor_service/supervisor"
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_UNCHECKED_HASH = (1).to_bytes(4, "little")


def build_zipapp() -> bytes:
    """Build the zip file; the same sources always give the same bytes."""
    sources = {
        f"{_PACKAGE}/{entry.name}": entry.read_bytes()
        for entry in resources.files("executor_service.supervisor").iterdir()
        if entry.name.endswith(".py")
    }
    sources["executor_service/__init__.py"] = b""
    sources[PROGRAM] = sources[f"{_PACKAGE}/{PROGRAM}"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            archive.writestr(zipfile.ZipInfo(name, _FIXED_TIME), sources[name])
    return buffer.getvalue()


def list_files(zipapp: bytes, place: str) -> Iterator[tuple[str, bytes]]:
    """Yield relative path and content of every file for a folder that boxes see at place.

    The compiled files are used without a check of the sources, which never change; other
    versions of Python ignore them.
    """
    with zipfile.ZipFile(io.BytesIO(zipapp)) as archive:
        for name in archive.namelist():
            source = archive.read(name)
            code = compile(source, f"{place}/{name}", "exec", dont_inherit=True)
            head = MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(source)
            yield name, source
            yield cache_from_source(name), head + marshal.dumps(code)


def install_supervisor(zipapp: bytes, folder: Path, place: str) -> Path:
    """Unpack into a folder below `folder` that is named for the content, unless it exists."""
    digest = hashlib.sha256(place.encode() + zipapp).hexdigest()[:16]

    def fill(part: Path) -> None:
        for name, content in list_files(zipapp, place):
            file = part / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o444)
        for below in part.rglob("*/"):
            below.chmod(0o755)

    return install(folder / f"supervisor-{digest}-{sys.implementation.cache_tag}", fill)


def install(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make a folder that everybody can list, and whose content never changes, unless it exists."""
    if target.is_dir():
        return target
    part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    fill(part)
    part.chmod(0o755)
    try:
        part.rename(target)
    except OSError:
        # Another process was faster.
        shutil.rmtree(part)
        if not target.is_dir():
            raise
    return target
