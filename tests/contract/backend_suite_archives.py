"""What every backend promises of archives: a whole folder or nothing, and no way out of it."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from executor_service.errors import FileRefused
from executor_service.supervisor.archives import MAX_DEPTH
from tests.support.boxes import Console

Entry = tuple[tarfile.TarInfo, bytes]
TIB = 1 << 40


def entry(name: str, content: bytes = b"", **fields: Any) -> Entry:
    """A file of an archive unless its type says otherwise."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(content), 1_700_000_000
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar(*entries: Entry, kind: int = tarfile.PAX_FORMAT) -> bytes:
    """An archive of these, as they are."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=kind) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def announced(info: tarfile.TarInfo) -> bytes:
    """A header alone, whatever it announces."""
    return info.tobuf(tarfile.GNU_FORMAT)


def sized_as_a_whole(size: str) -> bytes:
    """An archive whose attributes give every entry a size, which is not how much there is."""
    packed = io.BytesIO()
    with tarfile.open(
        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"size": size}
    ) as archive:
        archive.addfile(entry("a")[0])
        archive.addfile(entry("b")[0])
    return packed.getvalue()


def names_alone(comment: str) -> bytes:
    """A header of names without the entry that it is about."""
    archive = tar(entry("x", pax_headers={"comment": comment}))
    size = int(archive[124:135], 8)
    return archive[: tarfile.BLOCKSIZE + size + -size % tarfile.BLOCKSIZE]


async def unpack(console: Console, path: str, archive: bytes) -> None:
    """Make a folder of an archive."""
    async with console.link.files.unpack(path, parents=True) as upload:
        await upload.write(archive)
        await upload.commit(len(archive), hashlib.sha256(archive).hexdigest())


ATTACKS: dict[str, Callable[[], bytes]] = {
    "parent": lambda: tar(entry("../planted", b"x")),
    "absolute": lambda: tar(entry("/workspace/planted", b"x")),
    "hidden parent": lambda: tar(entry("a/../../planted", b"x")),
    "link and file behind it": lambda: tar(
        entry("door", type=tarfile.SYMTYPE, linkname="/workspace"), entry("door/planted", b"x")
    ),
    "link inside and file behind it": lambda: tar(
        entry("room/"), entry("door", type=tarfile.SYMTYPE, linkname="room"), entry("door/x", b"x")
    ),
    "link that climbs": lambda: tar(entry("a/b", type=tarfile.SYMTYPE, linkname="../../planted")),
    "link that climbs through another": lambda: tar(
        entry("x", type=tarfile.SYMTYPE, linkname="."),
        entry("y", type=tarfile.SYMTYPE, linkname="x/x/x/../../../etc/hostname"),
    ),
    "link to a very long name": lambda: tar(entry("x", type=tarfile.SYMTYPE, linkname="n/" * 3000)),
    "hard link": lambda: tar(entry("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")),
    "device": lambda: tar(entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "pipe": lambda: tar(entry("pipe", type=tarfile.FIFOTYPE)),
    "setuid": lambda: tar(entry("root", b"x", mode=0o4755)),
    "sparse": lambda: announced(entry("sparse", type=tarfile.GNUTYPE_SPARSE, size=TIB)[0]),
    "new kind of sparse": lambda: tar(
        entry("sparse", b"x", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.realsize": "9"})
    ),
    "more than there is room for": lambda: announced(entry("big", size=TIB)[0]),
    "negative size": lambda: sized_as_a_whole("-1"),
    "more in each than there is": lambda: sized_as_a_whole("900"),
    "compressed": lambda: gzip.compress(tar(entry("file", b"x" * 5000))),
    "header bomb": lambda: announced(entry("long", type=tarfile.XHDTYPE, size=1 << 32)[0]),
    "large header": lambda: names_alone("y" * 70_000),
    "too deep": lambda: tar(entry("d/" * MAX_DEPTH + "file", b"x")),
    "headers without end": lambda: names_alone("y") * 5_000,
    "the same name twice": lambda: tar(entry("file", b"1"), entry("file", b"2")),
    "a file where a folder is": lambda: tar(entry("x/y", b"1"), entry("x", b"2")),
    "no archive": lambda: b"this is no archive" * 100,
    "cut": lambda: tar(entry("file", b"x" * 5000))[:2000],
    "cut between entries": lambda: tar(entry("file", b"x" * 512))[:1024],
    "damaged": lambda: tar(entry("file"))[:512] + b"x" * 512,
}


class ArchiveSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    @pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
    async def test_an_archive_becomes_a_folder(self, console: Console, kind: int) -> None:
        name = f"folder-{kind}"
        long = "n" * 200
        archive = tar(
            entry("./", type=tarfile.DIRTYPE),
            entry("run", b"#!/bin/sh\necho ran\n", mode=0o755),
            entry(f"deep/{long}/naïve", b"text"),
            entry("empty", type=tarfile.DIRTYPE),
            entry("deep/link", type=tarfile.SYMTYPE, linkname="../run"),
            kind=kind,
        )
        await unpack(console, f"new/{name}", archive)
        script = f"cd new/{name}; ./run; cat deep/n*/naïve; readlink deep/link; deep/link; ls -A"
        assert await console.output(script) == "ran\ntext../run\nran\ndeep\nempty\nrun"
        assert await console.output(f"stat -c '%a %Y' new/{name}/run") == "755 1700000000"

    async def test_a_path_that_is_taken_stays_as_it_is(self, console: Console) -> None:
        await console.output("mkdir taken; echo mine > taken/file")
        with pytest.raises(FileRefused) as refused:
            await unpack(console, "taken", tar(entry("file", b"other")))
        assert refused.value.code == "ALREADY_EXISTS"
        assert await console.output("cat taken/file") == "mine"

    async def test_an_archive_that_is_not_what_was_announced(self, console: Console) -> None:
        async with console.link.files.unpack("announced") as upload:
            await upload.write(tar(entry("file", b"x")))
            with pytest.raises(FileRefused) as refused:
                await upload.commit(1, "0" * 64)
        assert refused.value.code == "DIGEST_MISMATCH"
        assert await console.output("ls -A | grep -e announced -e hermes || true") == ""

    async def test_who_leaves_leaves_nothing(self, console: Console) -> None:
        async with console.link.files.unpack("left") as upload:
            await upload.write(tar(entry("file", b"x")))
        await console.link.ping(5)
        assert await console.output("ls -A | grep -e left -e hermes || true") == ""

    @pytest.mark.parametrize("attack", ATTACKS)
    async def test_an_attack_leaves_nothing(self, console: Console, attack: str) -> None:
        archive = ATTACKS[attack]()
        with pytest.raises(FileRefused):
            await unpack(console, "attacked", archive)
        search = "find / -xdev -name planted 2>/dev/null; " if b"planted" in archive else ""
        left = await console.output(f"{search}ls -A")
        assert "planted" not in left
        assert "attacked" not in left
        assert ".hermes-" not in left
