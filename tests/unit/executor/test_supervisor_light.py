"""The supervisor's JSON is the usual one, with Python's C halves of modules and without them."""

import subprocess
import sys
from pathlib import Path

import pytest

from executor_service.supervisor import light

CHECK = r"""
import sys
sys.path.insert(0, sys.argv[1])
hidden = sys.argv[2:]
for name in hidden:
    sys.modules[name] = None
import light
assert ("json" in sys.modules, "hashlib" in sys.modules) == (bool(hidden), bool(hidden))
for text in (b"", b"{} ", b"{", b"nul", b"[1,]", b"\xff", b"{}{}", b"'a'", b"[" * 100_000):
    try:
        light.from_json(text)
    except (ValueError, RecursionError):
        continue
    raise AssertionError(text[:9])
import hashlib, json
assert light.sha256(b"x").hexdigest() == hashlib.new("sha256", b"x").hexdigest()
for value in ({}, {"a": [1, 2.5, None, True, "\udc80\xe9\n", {"b": {}}]}, "x", -(10**30), 1e300):
    text = light.to_json(value)
    assert text == json.dumps(value, separators=(",", ":")).encode(), text
    assert light.from_json(text) == value
"""


@pytest.mark.parametrize("hidden", [(), ("_json", "_sha2", "_sha256")], ids=["with", "without"])
def test_json_is_the_usual_one(hidden: tuple[str, ...]) -> None:
    folder = str(Path(light.__file__).parent)
    argv = [sys.executable, "-I", "-S", "-c", CHECK, folder, *hidden]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
