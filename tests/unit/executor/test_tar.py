"""The supervisor's reader of archives against Python's own, and against noise."""

import contextlib
import gzip
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_service.supervisor import tar
from executor_service.supervisor.files import FileError

Read = list[tuple[tar.Entry, bytes]]
FORMATS = {"pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT, "ustar": tarfile.USTAR_FORMAT}


def read(archive: bytes) -> Read:
    """All entries with their content."""
    reader = tar.Reader(io.BytesIO(archive))
    found = ((entry, b"".join(reader.content(entry))) for entry in reader.entries())
    return [(entry, content) for entry, content in found if entry.kind not in tar.NAMES]


def sample(kind: int, longest: int) -> bytes:
    """An archive with names as long as its format takes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=kind) as archive:
        for name, size in (("plain", 0), (f"a/{'n' * longest}/naïve", 1), ("big", 700_000)):
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = size, 0o640, 1_700_000_000
            archive.addfile(info, io.BytesIO(b"x" * size))
        for name, field in (("folder", tarfile.DIRTYPE), ("link", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = field, "plain" if field == tarfile.SYMTYPE else ""
            archive.addfile(info)
    return packed.getvalue()


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read_as_python_reads_it(kind: str, compressed: bool) -> None:
    archive = sample(FORMATS[kind], 90 if kind == "ustar" else 240)
    found = {
        entry.name.rstrip("/"): (entry, content)
        for entry, content in read(gzip.compress(archive) if compressed else archive)
    }
    with tarfile.open(fileobj=io.BytesIO(archive)) as expected:
        assert list(found) == expected.getnames()
        for info in expected:
            entry, content = found[info.name]
            same = (info.type, info.size, info.mode, info.mtime, info.linkname)
            assert (entry.kind, entry.size, entry.mode, entry.mtime, entry.target) == same
            file = expected.extractfile(info) if info.isreg() else None
            assert content == (file.read() if file is not None else b"")


@given(
    st.sampled_from([tar.FILE, tar.FOLDER, tar.LINK]),
    st.text("ab/é\u2603", min_size=1, max_size=400).filter(lambda name: name.strip("/")),
    st.integers(0, 1 << 40),
    st.text("xy./", min_size=1, max_size=300),
)
def test_headers_are_what_python_reads(kind: bytes, name: str, size: int, target: str) -> None:
    name = name.strip("/")
    size, target = (size if kind == tar.FILE else 0), (target if kind == tar.LINK else "")
    packed = tar.header(tar.Entry(kind, name, size, 0o751, 1_700_000_000, target))
    assert len(packed) % tar.BLOCK_BYTES == 0
    with tarfile.open(fileobj=io.BytesIO(packed + bytes(1024))) as archive:
        found = archive.next()
        assert found is not None
        assert (found.type, found.name, found.size, found.mode) == (kind, name, size, 0o751)
        assert (found.mtime, found.linkname) == (1_700_000_000, target)
    entries = tar.Reader(io.BytesIO(packed)).entries()
    assert next(found for found in entries if found.kind not in tar.NAMES) == tar.Entry(
        kind, name, size, 0o751, 1_700_000_000, target
    )


def test_a_content_that_nobody_reads_is_passed_over() -> None:
    reader = tar.Reader(io.BytesIO(sample(tarfile.PAX_FORMAT, 200)))
    assert [entry.name for entry in reader.entries()][-3:] == ["big", "folder/", "link"]


def checked(block: bytes) -> bytes:
    """A header whose checksum is right."""
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    return block[:148] + b"%06o\0 " % total + block[156:]


@pytest.mark.parametrize("size", [b"-0000001001", b"\xff" * 12, b"99999999999", b"+0000000001"])
@pytest.mark.parametrize("kind", [b"0", b"5", b"x", b"g", b"L"])
def test_a_size_that_is_none_is_refused(kind: bytes, size: bytes) -> None:
    block = tarfile.TarInfo("name").tobuf(tarfile.USTAR_FORMAT)
    block = checked(block[:124] + size.ljust(12, b"\0") + kind.join((block[136:156], block[157:])))
    with pytest.raises(FileError):
        read(block + bytes(4096))


@pytest.mark.parametrize("record", [b"0 a=b\n", b"99 path=x\n", b"6path=x\n", b"7 path=\n"])
def test_damaged_names_are_refused(record: bytes) -> None:
    packed = record * 3
    block = tarfile.TarInfo("name").tobuf(tarfile.USTAR_FORMAT)
    block = checked(
        block[:124] + b"%011o\0" % len(packed) + b"x".join((block[136:156], block[157:]))
    )
    with pytest.raises(FileError):
        read(block + packed + tar.padding(len(packed)) + bytes(1024))


@given(st.lists(st.tuples(st.sampled_from(b"0 5 2 x g L K".split()), st.binary(max_size=600))))
def test_any_headers_that_are_well_formed_come_to_an_end(parts: list[tuple[bytes, bytes]]) -> None:
    block = tarfile.TarInfo("name").tobuf(tarfile.USTAR_FORMAT)
    archive = bytearray()
    for kind, content in parts:
        start = block[:124] + b"%011o\0" % len(content) + kind.join((block[136:156], block[157:]))
        archive += checked(start) + content + tar.padding(len(content))
    with contextlib.suppress(FileError):
        assert len(read(bytes(archive) + bytes(1024))) <= len(parts)


@given(st.integers(0, 4000), st.binary(min_size=1, max_size=40))
def test_damage_is_told_and_nothing_else_happens(where: int, noise: bytes) -> None:
    archive = bytearray(sample(tarfile.PAX_FORMAT, 120)[:20_000])
    archive[where : where + len(noise)] = noise
    with pytest.raises(FileError):
        read(bytes(archive))


@given(st.binary(max_size=3000))
def test_noise_is_no_archive(noise: bytes) -> None:
    for archive in (noise, gzip.compress(noise), b"\x1f\x8b" + noise):
        if archive[:512] != bytes(512) and gzip.compress(bytes(512))[:10] != archive[:10]:
            with pytest.raises(FileError):
                read(archive)
