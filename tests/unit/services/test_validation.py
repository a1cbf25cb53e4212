"""Types that several threads meet first at once."""

import subprocess
import sys

PROGRAM = """
import sys
from enum import StrEnum
from threading import Barrier, Thread

from msgspec import defstruct

from services.validation import convert, decode

sys.setswitchinterval(1e-6)
WORDS = {"word": "a", "inner": {"word": "b"}}
TEXT = b'{"word": "a", "inner": {"word": "b"}}'
read = []

def meet(kind, together):
    together.wait()
    read.append(convert(WORDS, kind) == decode(TEXT, kind))

for number in range(500):
    words = StrEnum("Words", {"A": "a", "B": "b"})
    inner = defstruct("Inner", [("word", words)])
    kind = defstruct("Outer", [("word", words), ("inner", inner)])
    together = Barrier(4)
    threads = [Thread(target=meet, args=(kind, together)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert read == [True] * 2000
"""


def test_threads_that_meet_a_type_at_once_all_read_it() -> None:
    assert subprocess.run([sys.executable, "-c", PROGRAM], check=False).returncode == 0
