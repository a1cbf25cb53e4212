"""SKILL.md: its text, and its frontmatter, which is read leniently and written strictly."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

from msgspec import Struct

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
    """Return the YAML, or None if there is no frontmatter, and the text after it."""
    found = _BETWEEN.match(text)
    return (None, text) if found is None else (found["fields"], text[found.end() :])


def parse(text: str) -> Fields:
    """Parse the YAML; BadFrontmatter if it is invalid."""
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
    """Parse the YAML; if it is invalid, the lines that look like `key: value`."""
    try:
        return parse(text)
    except BadFrontmatter:
        lines = _LINE.finditer(text[:MAX_CHARS])
        return {line["key"]: line["value"].strip().strip("\"'") for line in lines}


def render(fields: Mapping[str, Value]) -> str:
    """Return the fields as strict YAML between two `---` lines."""
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


MAX_NAME_CHARS = 64
MAX_CATEGORY_FOLDERS = 5
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
MAX_BODY_CHARS = 100_000

FIELDS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
"""The fields of the format; all others belong under `metadata.hermes`."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SYSTEMS = frozenset({"linux", "macos", "darwin", "windows", "win32"})
_SANDBOX = "linux"
"""The system that commands run on."""


class BadSkill(Exception):
    """A skill that cannot be written like this; the message says what is wrong."""


def is_name(text: str) -> bool:
    """Return whether this is a valid name of a skill or of one folder of a category."""
    return len(text) <= MAX_NAME_CHARS and _NAME.fullmatch(text) is not None


def is_category(text: str) -> bool:
    """Return whether this is a valid category, such as `mlops/training`."""
    return text.count("/") < MAX_CATEGORY_FOLDERS and all(map(is_name, text.split("/")))


class SkillContext(Struct, frozen=True):
    """The properties of a session that decide which skills it is offered."""

    toolsets: frozenset[str]
    tools: frozenset[str]
    platform: str


class Conditions(Struct, frozen=True):
    """When a skill is offered; an empty field sets no condition."""

    platforms: frozenset[str] = frozenset()
    """Operating systems and platforms; of each kind that is named, one must match."""
    requires_toolsets: frozenset[str] = frozenset()
    requires_tools: frozenset[str] = frozenset()
    fallback_for_toolsets: frozenset[str] = frozenset()
    """Toolsets that the skill replaces: it is offered only if they are missing."""
    fallback_for_tools: frozenset[str] = frozenset()

    def hold(self, around: SkillContext) -> bool:
        systems, places = self.platforms & _SYSTEMS, self.platforms - _SYSTEMS
        return (
            (not systems or _SANDBOX in systems)
            and (not places or around.platform in places)
            and self.requires_toolsets <= around.toolsets
            and self.requires_tools <= around.tools
            and not self.fallback_for_toolsets & around.toolsets
            and not self.fallback_for_tools & around.tools
        )


class SkillDocument(Struct, frozen=True):
    """A parsed SKILL.md."""

    name: str
    description: str
    fields: Mapping[str, Value]
    body: str

    @property
    def conditions(self) -> Conditions:
        hermes = hermes_fields(self.fields)
        platforms = self.fields.get("platforms", hermes.get("platforms", ""))
        return Conditions(
            platforms=frozenset(each.lower() for each in _words(platforms)),
            requires_toolsets=_words(hermes.get("requires_toolsets", "")),
            requires_tools=_words(hermes.get("requires_tools", "")),
            fallback_for_toolsets=_words(hermes.get("fallback_for_toolsets", "")),
            fallback_for_tools=_words(hermes.get("fallback_for_tools", "")),
        )

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(sorted(_words(hermes_fields(self.fields).get("tags", ""))))


def hermes_fields(fields: Mapping[str, Value]) -> Fields:
    """Return the fields under `metadata.hermes`."""
    metadata = fields.get("metadata")
    found = metadata.get("hermes") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def own_name(text: str) -> str:
    """Return the name in a SKILL.md; empty if it has none."""
    between, _ = split(text)
    found = parse_leniently(between or "").get("name", "")
    return found.strip() if isinstance(found, str) else ""


def read(text: str, folder: str) -> SkillDocument:
    """Read the skill in a folder of that name, even if its file is invalid."""
    between, body = split(text)
    fields = {} if between is None else parse_leniently(between)
    described = fields.get("description", "")
    description = described if isinstance(described, str) and described.strip() else _opening(body)
    return SkillDocument(folder, " ".join(description.split()), fields, body)


def checked(text: str, folder: str) -> SkillDocument:
    """Return the skill that a new SKILL.md describes; BadSkill says what is wrong with it."""
    if "\0" in text:
        raise BadSkill("SKILL.md would be no text: it has a NUL character.")
    between, body = split(text)
    if between is None:
        raise BadSkill("SKILL.md begins with frontmatter: a line ---, name, description, and ---.")
    try:
        fields = parse(between)
    except BadFrontmatter as error:
        raise BadSkill(f"SKILL.md: {error}.") from None
    fields = _in_their_places(fields)
    name, description = _text(fields, "name"), " ".join(_text(fields, "description").split())
    _check_name(name, folder)
    if not 1 <= len(description) <= MAX_DESCRIPTION_CHARS:
        limit = f"{MAX_DESCRIPTION_CHARS:,}"
        raise BadSkill(f"The description needs 1 to {limit} characters; it has {len(description)}.")
    if len(_text(fields, "compatibility")) > MAX_COMPATIBILITY_CHARS:
        raise BadSkill(f"The compatibility may have {MAX_COMPATIBILITY_CHARS} characters.")
    if len(body) >= MAX_BODY_CHARS:
        raise BadSkill(
            f"The text of a skill has fewer than {MAX_BODY_CHARS:,} characters, this one "
            f"{len(body):,}. Move parts of it into files under references/."
        )
    if not body.strip():
        raise BadSkill("The skill says nothing after its frontmatter.")
    return SkillDocument(name, description, {**fields, "description": description}, body)


def to_markdown(document: SkillDocument) -> str:
    """Return the SKILL.md of a checked skill in strict form."""
    ordered = {key: document.fields[key] for key in FIELDS if key in document.fields}
    try:
        return render(ordered) + document.body
    except BadFrontmatter as error:
        raise BadSkill(f"SKILL.md: {error}.") from None


def _check_name(name: str, folder: str) -> None:
    if not is_name(name):
        raise BadSkill(
            f"{name!r} is no name of a skill: 1 to {MAX_NAME_CHARS} characters of a-z and 0-9, "
            "and single hyphens between them."
        )
    if name != folder:
        raise BadSkill(f"The frontmatter says name: {name}, but the skill is called {folder}.")


def _in_their_places(fields: Fields) -> Fields:
    """Return the fields, with those that the format does not know under `metadata.hermes`."""
    known = {key: value for key, value in fields.items() if key in FIELDS}
    others = {key: value for key, value in fields.items() if key not in FIELDS}
    if not others:
        return known
    metadata = known.get("metadata")
    kept = dict(metadata) if isinstance(metadata, dict) else {}
    kept["hermes"] = {**others, **hermes_fields(known)}
    return {**known, "metadata": kept}


def _text(fields: Mapping[str, Value], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise BadSkill(f"The frontmatter's {name} is a text.")
    return value.strip()


def _words(value: Value) -> frozenset[str]:
    if isinstance(value, str):
        items: list[Value] = [*value.strip("[]").replace(",", " ").split()]
    else:
        items = list(value)
    texts = (item.strip().strip("\"'") for item in items if isinstance(item, str))
    return frozenset(text for text in texts if text)


def _opening(body: str) -> str:
    lines = (line.strip() for line in body.splitlines())
    return next((line for line in lines if line and not line.startswith(("#", "<!--"))), "")
