"""The skill index in a new session's prompt, by which a model finds skills."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from agent_service.profiles.skills.document import SkillContext
from agent_service.profiles.skills.library import Catalogue, Skill
from agent_service.security.threats import Screened

MAX_DESCRIPTION_CHARS = 240
UNSORTED = "general"

_INSTRUCTION = """\
# Skills
Before you answer, look through this list. When a skill clearly fits what is asked, load it with
skill_view(name) and follow it; it holds what was learned the last time. When none fits, go on
without one."""


def index(catalogue: Catalogue, around: SkillContext) -> Screened:
    """Return the index of usable skills as a prompt layer; empty if there are none."""
    usable = [skill for skill in catalogue.skills if skill.conditions.hold(around)]
    if not usable:
        return Screened()
    lines = "\n".join(listing(catalogue, usable))
    listed = {name for skill in usable for name in (skill.folder, skill.category)}
    blocked = tuple(
        f"What looks like an attack in the description of {one_line(name)} ({families}) is kept "
        "from the model, which is told [BLOCKED] in its place. Look at it in the folder of your "
        "skills before you trust it."
        for name, families in catalogue.blocked.items()
        if name in listed
    )
    text = f"{_INSTRUCTION}\n<available_skills>\n{lines}\n</available_skills>"
    return Screened(text, blocked)


def one_line(text: str) -> str:
    """Return a text as one line of a list, which it cannot break out of or hide parts of."""
    visible = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(visible.split()).replace("<", "&lt;").replace(">", "&gt;")
    most = MAX_DESCRIPTION_CHARS
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def listing(catalogue: Catalogue, skills: Sequence[Skill]) -> Iterator[str]:
    """Yield the lines of a list of skills, which are in order of their categories."""
    for category, members in groupby(skills, lambda skill: skill.category):
        about = one_line(catalogue.about(category))
        yield f"{one_line(category) or UNSORTED}:{' ' if about else ''}{about}"
        for skill in members:
            described = one_line(skill.description)
            yield f"- {one_line(skill.name)}{': ' if described else ''}{described}"
