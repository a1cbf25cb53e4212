"""Makes a small Python project: package, command line, tests and pyproject.toml, all offline."""

from __future__ import annotations

import argparse
import json
import keyword
import re
import sys
from pathlib import Path

USAGE = """\
examples:
  new_project.py word-count --about "Counts words in a text"
  new_project.py word-count --into ~/code --python 3.9
"""
FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = {about_json}
requires-python = ">={python}"
dependencies = []

[project.scripts]
{name} = "{package}.__main__:main"

[tool.setuptools.packages.find]
where = ["src"]
""",
    "README.md": """\
# {name}

{about}.

    python3 -m venv .venv
    .venv/bin/python -m pip install -e .
    .venv/bin/{name} --help

Tests: `PYTHONPATH=src python3 -m unittest`
""",
    ".gitignore": ".venv/\n__pycache__/\n*.egg-info/\nbuild/\ndist/\n",
    "src/{package}/__init__.py": '"""{about}."""\n',
    "src/{package}/__main__.py": '''\
"""The command line."""

import argparse
import sys
from typing import List, Optional

from {package}.core import greeting


def main(argv: Optional[List[str]] = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="{name}", description={about_json})
    parser.add_argument("name", help="who is greeted")
    options = parser.parse_args(argv)
    print(greeting(options.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
''',
    "src/{package}/core.py": '''\
"""What the program does, without its command line."""


def greeting(name: str) -> str:
    """A greeting; ValueError where there is nobody to greet."""
    if not name.strip():
        raise ValueError("the name is empty")
    return f"Hello, {{name.strip()}}."
''',
    "tests/__init__.py": "",
    "tests/test_core.py": """\
import unittest

from {package}.core import greeting


class GreetingTest(unittest.TestCase):
    def test_somebody_is_greeted(self) -> None:
        self.assertEqual(greeting(" Ada "), "Hello, Ada.")

    def test_nobody_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "empty"):
            greeting(" ")


if __name__ == "__main__":
    unittest.main()
""",
}


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="name of the project: a-z, 0-9 and hyphens")
    parser.add_argument("--about", default="A small program", help="one sentence on its purpose")
    parser.add_argument("--into", type=Path, default=Path(), help="folder to make it in")
    parser.add_argument("--python", default="3.9", help="oldest Python (default 3.9)")
    options = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", options.name):
        parser.error(f"{options.name!r} is no name: a-z, 0-9 and single hyphens, a letter first")
    package = options.name.replace("-", "_")
    if keyword.iskeyword(package) or package in ("test", "tests", "src"):
        parser.error(f"{options.name!r} would be a package that Python cannot import")
    about = " ".join(options.about.split()).rstrip(".").replace('"""', "'''").replace("\\", "/")
    root = options.into / options.name
    words = {"name": options.name, "package": package, "about": about, "python": options.python}
    try:
        root.mkdir(parents=True)
        for path, text in FILES.items():
            target = root / path.format(**words)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.format(**words, about_json=json.dumps(about)), "utf-8")
    except FileExistsError:
        sys.exit(f"new_project: {root} is there already; choose another name")
    except OSError as error:
        sys.exit(f"new_project: cannot make {root}: {error.strerror}")
    print(f"Made {root}. Try it:")
    print(f"  cd {root} && PYTHONPATH=src python3 -m unittest -q")
    return 0


if __name__ == "__main__":
    sys.exit(main())
