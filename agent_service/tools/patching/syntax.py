"""Checks whether a change broke the syntax of a file, by its extension."""

import ast
import json
import tomllib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import cast

MAX_CHARS = 1024 * 1024
MAX_YAML_CHARS = 64 * 1024
MAX_YAML_BRACKETS = 1_000
"""The YAML parser is slow, and slower with each open bracket."""


class _Broken(Exception):
    """Where the syntax is broken, and how."""


def broken(path: str, before: str, after: str) -> str:
    """The syntax error that a change introduced; empty if there is none or it was there before.

    Takes up to seconds: do not call it on the event loop.
    """
    suffix = PurePosixPath(path).suffix.lower()
    kind, parse, most = _KINDS.get(suffix, ("", None, 0))
    if parse is None or len(after) > most or len(before) > most:
        return ""
    said = _problem(parse, after)
    if not said or (before and _problem(parse, before)):
        return ""
    return f"[{path} is not valid {kind} since this change: {said}]"


def _problem(parse: Callable[[str], None], text: str) -> str:
    try:
        parse(text)
    except _Broken as error:
        return str(error)
    except (RecursionError, MemoryError):
        return ""  # too deeply nested to check
    return ""


def _python(text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise _Broken(f"line {error.lineno}: {error.msg}") from None
    except ValueError as error:
        raise _Broken(str(error)) from None


def _json(text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise _Broken(f"line {error.lineno}: {error.msg}") from None


def _toml(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _Broken(str(error)) from None


def _yaml(text: str) -> None:
    if text.count("[") + text.count("{") > MAX_YAML_BRACKETS:
        return
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError

    try:
        # Reads events only: foreign tags are not constructed and aliases not expanded.
        for _ in YAML(typ="safe", pure=True).parse(text):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            pass
    except MarkedYAMLError as error:
        mark = cast("StringMark | None", error.problem_mark)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise _Broken(f"{line}{error.problem}") from None
    except YAMLError as error:
        raise _Broken(str(error)) from None


_KINDS: dict[str, tuple[str, Callable[[str], None], int]] = {
    ".py": ("Python", _python, MAX_CHARS),
    ".pyi": ("Python", _python, MAX_CHARS),
    ".json": ("JSON", _json, MAX_CHARS),
    ".toml": ("TOML", _toml, MAX_CHARS),
    ".yaml": ("YAML", _yaml, MAX_YAML_CHARS),
    ".yml": ("YAML", _yaml, MAX_YAML_CHARS),
}
