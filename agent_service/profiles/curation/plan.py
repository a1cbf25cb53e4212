"""The consolidation plan of a model: one block of YAML, accepted only if all of it is valid."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import cast

import msgspec
from msgspec import Struct

from services.validation import convert

MAX_CHARS = 200_000
MAX_ENTRIES = 500
MAX_REASON_CHARS = 1000

_BLOCK = re.compile(r"^```(?:yaml|yml)?[ \t]*\n(?P<yaml>.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


class BadPlan(Exception):
    """The answer is not a valid plan; the message says why."""


class Form(StrEnum):
    """How a skill becomes part of another."""

    SECTION = "section"
    REFERENCE = "reference"
    """A file in references/ that the other skill's SKILL.md links to."""


_NAMES = {"source": "from", "form": "as"}


class Merge(Struct, frozen=True, forbid_unknown_fields=True, rename=_NAMES):
    """A skill to be merged into another."""

    source: str
    into: str
    reason: str
    form: Form = Form.SECTION
    description: str = ""


class Pruning(Struct, frozen=True, forbid_unknown_fields=True):
    """A skill to be archived."""

    name: str
    reason: str


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """All changes that the model wants."""

    consolidations: tuple[Merge, ...] = ()
    prunings: tuple[Pruning, ...] = ()


def parse_plan(answer: str) -> Plan:
    """Return the plan in an answer; BadPlan if there is none or any part of it is invalid."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(answer) > MAX_CHARS:
        raise BadPlan(f"the answer is longer than {MAX_CHARS:,} characters")
    blocks = [found["yaml"] for found in _BLOCK.finditer(answer)]
    if len(blocks) > 1:
        raise BadPlan("the answer has several blocks, of which none can be preferred")
    text = blocks[0] if blocks else answer
    reader = YAML(typ="safe", pure=True)
    try:
        loaded: object = reader.load(text)
    except (YAMLError, RecursionError, ValueError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise BadPlan(f"the block is not YAML: {first}") from None
    if not isinstance(loaded, dict):
        raise BadPlan("the answer has no block with consolidations and prunings")
    fields = cast("dict[object, object]", loaded)
    # YAML reads a list without entries as null.
    return _checked({key: value for key, value in fields.items() if value is not None})


def _checked(loaded: dict[object, object]) -> Plan:
    try:
        plan = convert(loaded, Plan)
    except msgspec.ValidationError as error:
        raise BadPlan(f"the block is not as it must be: {error}") from None
    entries: Sequence[Merge | Pruning] = (*plan.consolidations, *plan.prunings)
    if len(entries) > MAX_ENTRIES:
        raise BadPlan(f"the plan has more than {MAX_ENTRIES} entries")
    if any(len(each.reason) > MAX_REASON_CHARS for each in entries):
        raise BadPlan(f"a reason has more than {MAX_REASON_CHARS:,} characters")
    return plan
