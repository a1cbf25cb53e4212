"""The cache of received files: what goes when it is old, or when there is too much."""

import os
from pathlib import Path

from gateway_service.storage.file_cache import KEEP_S, FileCache
from services.home.paths import HomePaths


def test_old_files_and_the_oldest_of_too_many_go(tmp_path: Path) -> None:
    now = 10_000_000.0
    for name, age_s in (("image_cache/a", 10), ("audio_cache/b", 20), ("image_cache/c", 30)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (now - age_s, now - age_s))
    old = tmp_path / "document_cache" / "d"
    old.parent.mkdir()
    old.touch()
    aged = now - KEEP_S - 1
    os.utime(old, (aged, aged))
    cache = FileCache(HomePaths(tmp_path, tmp_path), 200)
    assert cache.prune(lambda: now) == 2
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"a", "b"}
    assert FileCache(HomePaths(tmp_path / "none", tmp_path), 200).prune() == 0
