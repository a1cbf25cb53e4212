"""Says what is written in a document, in a process of its own.

It is run as a file, with the kind as its argument and the document on its input, and answers in
JSON. Nothing of this machine is used but the processor.
"""

import json
import resource
import sys
from contextlib import suppress

from agent_service.documents import notebook, pages, sheets, word
from agent_service.documents.parts import Full, Text, Unreadable

MEMORY_BYTES = 1_500_000_000
CPU_S = 30

_READERS = {"docx": word.read, "ipynb": notebook.read, "pdf": pages.read, "xlsx": sheets.read}


def main() -> None:
    """Read the document, and say its text, why it is none, or why the text is not whole."""
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, CPU_S)
    _limit(resource.RLIMIT_CORE, 0)
    text, problem, cut = Text(), "", ""
    try:
        _READERS[sys.argv[1]](sys.stdin.buffer.read(), text)
    except Unreadable as error:
        problem = str(error)
    except Full as error:
        cut = str(error)
    said = {"lines": text.lines, "problem": problem, "cut": cut}
    json.dump(said, sys.stdout)


def _limit(kind: int, amount: int) -> None:
    # Not every system has every limit.
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (amount, amount))


if __name__ == "__main__":
    main()
