"""The repository speaks of the product alone, and of nothing that is still to be done."""

import re
import subprocess
from collections.abc import Iterator

from tests.architecture.source import ROOT, Module, assert_clean, assert_refuses

# Each pattern has a character in brackets, so that this file does not match itself.
FORBIDDEN = {
    "is left to do": r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK|W[I]P)\b",
    "is not final": r"(?i)\b(f[o]r now|s[i]mplified|not (yet )?i[m]plemented|c[o]ming soon)\b",
    "is a place on one machine": r"(?<![\w.-])/(w[o]rk|tmp/h[e]rmes|opt/p[y]pi|opt/w[h]eels)\b",
    "is a package registry": r"\b(p[y]pi\.org|p[y]thonhosted|n[p]mjs\.|proxy\.g[o]lang)",
    "is about the work, not the product": r"(?i)\b(i[s]sue #?\d|s[u]b-?agent brief)",
}


def texts() -> tuple[Module, ...]:
    """Return all text files that somebody wrote and that are, or will be, in the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    return tuple(read(names))


def read(names: str) -> Iterator[Module]:
    for name in names.rstrip("\0").split("\0"):
        if name.startswith("protos/gen/") or not (ROOT / name).is_file():
            continue
        content = (ROOT / name).read_bytes()
        if b"\0" not in content:
            yield Module(name, content.decode())


def asides(module: Module) -> Iterator[str]:
    for meaning, pattern in FORBIDDEN.items():
        for found in re.finditer(pattern, module.text):
            line = module.text.count("\n", 0, found.start()) + 1
            yield f"{module.path}:{line}: {found.group()!r} {meaning}"


def test_the_repository_speaks_of_the_product() -> None:
    assert_clean(asides, texts())
    assert_refuses(asides, Module("a.md", "# TO" + "DO: more"))
