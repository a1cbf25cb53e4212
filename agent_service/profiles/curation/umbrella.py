"""A skill that takes other skills in: their texts, as sections or files, and their files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from agent_service.profiles.curation.plan import Form, Merge
from agent_service.profiles.curation.snapshot import KnownSkill
from agent_service.profiles.skills.document import (
    MAX_BODY_CHARS,
    BadSkill,
    SkillDocument,
    checked,
    read,
    to_markdown,
)
from agent_service.profiles.skills.journal import Write, digest
from agent_service.profiles.skills.names import DOCUMENT, MAX_SUPPORT_BYTES, support_file

_HEADING = re.compile(r"#{1,5} ")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
POINTERS = "## More on this"
"""The heading of the list of files that were skills of their own."""
ROOM_CHARS = MAX_BODY_CHARS // 2
"""Beyond this length merged text becomes files, because a skill's text is always read whole."""


class Umbrella:
    """A skill that takes others in."""

    def __init__(self, folder: str, document: SkillDocument, before: KnownSkill | None) -> None:
        self._folder = folder
        self._document = document
        self._before = before
        self._body = document.body
        self._files: dict[str, bytes] = {}
        self._pointers = ""

    @classmethod
    def from_skill(cls, held: KnownSkill) -> Self:
        """Return an existing skill; BadSkill if it cannot be written in strict form."""
        if not held.text:
            raise BadSkill(f"{held.skill.name} is not all text")
        return cls(held.skill.folder, checked(held.text, held.skill.name), held)

    @classmethod
    def new(cls, name: str, description: str, category: str) -> Self:
        fields = {"name": name, "description": description}
        body = f"# {name.replace('-', ' ').capitalize()}\n\n{description}\n"
        folder = f"{category}/{name}" if category else name
        return cls(folder, SkillDocument(name, description, dict(fields), body), None)

    @property
    def is_new(self) -> bool:
        return self._before is None

    @property
    def description(self) -> str:
        return self._document.description

    def take_in(self, held: KnownSkill, merge: Merge) -> None:
        name = held.skill.name
        if not held.text:
            raise BadSkill(f"{name} has what no skill may have, such as a file of more than 1 MiB")
        source = read(held.text, name)
        paths = {path: self._free(path, name) for path in held.files}
        for path, target in paths.items():
            self._files[target] = held.files[path]
        moved = {path: target for path, target in paths.items() if path != target}
        body, about = _renamed(source.body, moved), source.description
        label = f"{name}\n\nTaken over from the skill {name}: {about}\n"
        added = "\n".join([f"## {label}", *_deeper(body.strip()), ""])
        if merge.form is Form.SECTION and len(self._body) + len(added) <= ROOM_CHARS:
            self._body = f"{self._body.rstrip()}\n\n{added}"
            return
        path = self._free(f"references/{name}.md", name)
        self._files[path] = f"# {label}\n{body.strip()}\n".encode()
        self._pointers += f"- `{path}`: {about}\n"

    def check(self) -> None:
        self._render()
        if any(len(data) > MAX_SUPPORT_BYTES for data in self._files.values()):
            raise BadSkill("a file of a skill has 1 MiB at most")

    def writes(self) -> Sequence[Write]:
        """Return writes for the changed files; last SKILL.md, which names the others."""
        files = [Write(f"{self._folder}/{path}", "", data) for path, data in self._files.items()]
        before = None if self._before is None else self._before.text.encode()
        document = Write(f"{self._folder}/{DOCUMENT}", digest(before), self._render().encode())
        return (*files, document)

    def _render(self) -> str:
        pointers = f"\n\n{POINTERS}\n\n{self._pointers}" if self._pointers else ""
        body = self._body.rstrip() + (pointers or "\n")
        text = to_markdown(replace(self._document, body=body))
        return to_markdown(checked(text, self._document.name))

    def _free(self, path: str, name: str) -> str:
        """Return a free path: the given one, or one with the other skill's name in it."""
        kind, _, file = path.partition("/")
        there = self._before.skill.files if self._before is not None else ()
        for each in (path, f"{kind}/{name}-{file}"):
            if each not in self._files and each not in there and support_file(each) == each:
                return each
        raise BadSkill(f"there is no name left for {path} of {name}")


def _renamed(text: str, paths: Mapping[str, str]) -> str:
    if not paths:
        return text
    names = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.sub(rf"(?<![\w/-])(?:\./)?({names})(?![\w-])", lambda at: paths[at[1]], text)


def _deeper(body: str) -> Iterator[str]:
    """Yield the lines of a text with its headings two levels down, if there are levels left."""
    fence = ""
    for line in body.split("\n"):
        found = _FENCE.match(line)
        if fence:
            fence = "" if found and found[1].startswith(fence) else fence
        elif found:
            fence = found[1]
        elif heading := _HEADING.match(line):
            level = min(6, len(heading[0]) - 1 + 2)
            yield "#" * level + line[len(heading[0]) - 1 :]
            continue
        yield line
