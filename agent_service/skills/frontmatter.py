"""The YAML between the two `---` of a SKILL.md: read leniently, written strictly.

Every scalar is a string, so that `version: 1.10` stays what it is. What is written is the plain
subset of YAML that strict readers take, too: blocks only, no anchors, no tags, no flow style.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

Value: TypeAlias = "str | list[Value] | dict[str, Value]"
Fields = dict[str, Value]

MAX_CHARS = 16_384
MAX_VALUES = 2_000
MAX_DEPTH = 6

_BETWEEN = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?P<fields>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_LINE = re.compile(r"^(?P<key>[A-Za-z][\w-]*):[ \t]*(?P<value>\S.*)$", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,./_()+-]*(?<! )")
_NOT_A_STRING = re.compile(
    r"(?i)y|n|yes|no|on|off|true|false|null|none|[\d.,_+-]+|\d[\w.:+-]*", re.ASCII
)


class BadFrontmatter(Exception):
    """The frontmatter cannot be read or written; the message says why."""


def split(text: str) -> tuple[str | None, str]:
    """The YAML, or None where the text has no frontmatter, and what follows it."""
    found = _BETWEEN.match(text)
    return (None, text) if found is None else (found["fields"], text[found.end() :])


def parse(text: str) -> Fields:
    """What the YAML says; BadFrontmatter when it cannot be read."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(text) > MAX_CHARS:
        raise BadFrontmatter(f"the frontmatter is longer than {MAX_CHARS:,} characters")
    reader = YAML(typ="base", pure=True)
    reader.allow_duplicate_keys = True
    try:
        loaded = reader.load(text)
    except (YAMLError, RecursionError, ValueError) as error:
        raise BadFrontmatter(f"the frontmatter is not YAML: {_first_line(error)}") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise BadFrontmatter("the frontmatter is not a mapping of keys to values")
    return cast("Fields", _plain(cast("object", loaded), iter(range(MAX_VALUES)), MAX_DEPTH))


def parse_leniently(text: str) -> Fields:
    """What the YAML says; where it is none, the lines that look like `key: value`."""
    try:
        return parse(text)
    except BadFrontmatter:
        lines = _LINE.finditer(text[:MAX_CHARS])
        return {line["key"]: line["value"].strip().strip("\"'") for line in lines}


def render(fields: Mapping[str, Value]) -> str:
    """The fields as strict YAML between two lines of `---`."""
    body = "\n".join(_lines(fields, 0))
    if "---" in body:
        raise BadFrontmatter("the frontmatter may not contain ---; write a dash instead")
    return f"---\n{body}\n---\n"


def _plain(value: object, left: Iterator[int], depth: int) -> Value:
    if next(left, None) is None or depth == 0:
        raise BadFrontmatter("the frontmatter says too much, or too deeply")
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {str(key): _plain(item, left, depth - 1) for key, item in pairs}
    if isinstance(value, list):
        return [_plain(item, left, depth - 1) for item in cast("list[object]", value)]
    return str(value)


def _lines(fields: Mapping[str, Value], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in fields.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _lines(value, depth + 1)
        elif isinstance(value, list) and value:
            yield name
            yield from (f"{indent}- {_scalar(_flat(item))}" for item in value)
        elif isinstance(value, str) and value:
            yield f"{name} {_scalar(value)}"


def _flat(item: Value) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _NOT_A_STRING.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
