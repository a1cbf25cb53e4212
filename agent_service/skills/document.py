"""SKILL.md: one skill's name, what it is for, when it applies, and what it says."""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from agent_service.skills.frontmatter import (
    BadFrontmatter,
    Fields,
    Value,
    parse,
    parse_leniently,
    render,
    split,
)

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
MAX_BODY_CHARS = 100_000

FIELDS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
"""What the format knows; everything else that a home has belongs under `metadata.hermes`."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SYSTEMS = frozenset({"linux", "macos", "darwin", "windows", "win32"})
_SAME_SYSTEM = {"darwin": "macos", "win32": "windows"}


class BadSkill(Exception):
    """A skill that may not be written like this; the message says what is wrong."""


def is_name(text: str) -> bool:
    """Whether a skill or a category may be called this."""
    return len(text) <= MAX_NAME_CHARS and _NAME.fullmatch(text) is not None


class Surroundings(Struct, frozen=True):
    """What there is in a session, on which it depends whether a skill can be used."""

    toolsets: frozenset[str]
    tools: frozenset[str]
    platform: str
    """Where the conversation takes place, such as cli or telegram."""
    system: str = "linux"
    """linux, macos or windows."""


class Conditions(Struct, frozen=True):
    """When a skill is offered; empty is always."""

    platforms: frozenset[str] = frozenset()
    """Systems and platforms of conversation, of which each kind that is named has to fit."""
    requires_toolsets: frozenset[str] = frozenset()
    requires_tools: frozenset[str] = frozenset()
    fallback_for_toolsets: frozenset[str] = frozenset()
    """The skill replaces these, so that it is offered only where they are missing."""
    fallback_for_tools: frozenset[str] = frozenset()

    def hold(self, around: Surroundings) -> bool:
        """Whether the skill is of use in these surroundings."""
        systems = {_SAME_SYSTEM.get(each, each) for each in self.platforms & _SYSTEMS}
        places = self.platforms - _SYSTEMS
        return (
            (not systems or around.system in systems)
            and (not places or around.platform in places)
            and self.requires_toolsets <= around.toolsets
            and self.requires_tools <= around.tools
            and not self.fallback_for_toolsets & around.toolsets
            and not self.fallback_for_tools & around.tools
        )


class SkillDocument(Struct, frozen=True):
    """A SKILL.md as it was read."""

    name: str
    description: str
    fields: Mapping[str, Value]
    """The frontmatter, whatever it has."""
    body: str

    @property
    def conditions(self) -> Conditions:
        """When it is offered."""
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
        """What it is about."""
        return tuple(sorted(_words(hermes_fields(self.fields).get("tags", ""))))


def hermes_fields(fields: Mapping[str, Value]) -> Fields:
    """What is under `metadata.hermes`."""
    metadata = fields.get("metadata")
    found = metadata.get("hermes") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def own_name(text: str) -> str:
    """The name that a SKILL.md gives itself; empty where it gives none."""
    between, _ = split(text)
    found = parse_leniently(between or "").get("name", "")
    return found.strip() if isinstance(found, str) else ""


def read(text: str, folder: str) -> SkillDocument:
    """The skill in a folder of that name, whatever its file is like."""
    between, body = split(text)
    fields = {} if between is None else parse_leniently(between)
    described = fields.get("description", "")
    description = described if isinstance(described, str) and described.strip() else _opening(body)
    return SkillDocument(folder, " ".join(description.split()), fields, body)


def checked(text: str, folder: str) -> SkillDocument:
    """The skill that a new SKILL.md describes; BadSkill says what is wrong with it."""
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


def written(document: SkillDocument) -> str:
    """The SKILL.md of a checked skill, as strict readers want it."""
    ordered = {key: document.fields[key] for key in FIELDS if key in document.fields}
    try:
        return render(ordered) + document.body
    except BadFrontmatter as error:
        raise BadSkill(f"SKILL.md: {error}.") from None


def with_body(document: SkillDocument, body: str) -> SkillDocument:
    """The same skill that says something else."""
    return replace(document, body=body)


def _check_name(name: str, folder: str) -> None:
    if not is_name(name):
        raise BadSkill(
            f"{name!r} is no name of a skill: 1 to {MAX_NAME_CHARS} characters of a-z and 0-9, "
            "and single hyphens between them."
        )
    if name != folder:
        raise BadSkill(f"The frontmatter says name: {name}, but the skill is called {folder}.")


def _in_their_places(fields: Fields) -> Fields:
    """The fields with those that the format does not know under `metadata.hermes`."""
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
    """A list of words, however it was written."""
    if isinstance(value, str):
        items: list[Value] = [*value.strip("[]").replace(",", " ").split()]
    else:
        items = list(value)
    texts = (item.strip().strip("\"'") for item in items if isinstance(item, str))
    return frozenset(text for text in texts if text)


def _opening(body: str) -> str:
    """The first words of a text that describes itself nowhere else."""
    lines = (line.strip() for line in body.splitlines())
    return next((line for line in lines if line and not line.startswith(("#", "<!--"))), "")
