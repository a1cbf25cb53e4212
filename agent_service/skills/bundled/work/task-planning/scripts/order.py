"""Orders the steps of a plan by their dependencies, and finds circles and the longest chain."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Set, Tuple

USAGE = """\
examples:
  order.py plan.txt
  order.py plan.txt --done schema,api

A line of the plan is `name: 4h-8h after other, another`; m, h and d are units, a day has 8 hours.
"""
LINE = re.compile(
    r"^(?P<name>[\w. -]+?)\s*:\s*(?P<time>[\d.]+\s*[mhd]?(\s*-\s*[\d.]+\s*[mhd])?)?\s*"
    r"(?:after\s+(?P<after>.+))?$"
)
TIMES = re.compile(r"([\d.]+)\s*([mhd]?)")
HOURS = {"m": 1 / 60, "h": 1.0, "d": 8.0}


class Step(NamedTuple):
    """One step."""

    least_h: float
    most_h: float
    after: Tuple[str, ...]


def read(path: Path) -> Dict[str, Step]:
    """The steps by name."""
    steps: Dict[str, Step] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = LINE.match(text)
        if not found:
            sys.exit(f"order: line {number} is not `name: 4h after other`: {text}")
        name = found["name"].strip()
        if name in steps:
            sys.exit(f"order: line {number}: there are two steps {name!r}")
        pairs = TIMES.findall(found["time"] or "")
        unit = pairs[-1][1] if pairs else "h"
        hours = [float(value) * HOURS[own or unit or "h"] for value, own in pairs] or [0.0]
        after = tuple(each.strip() for each in (found["after"] or "").split(",") if each.strip())
        steps[name] = Step(hours[0], hours[-1], after)
    for name, step in steps.items():
        for each in step.after:
            if each not in steps:
                sys.exit(f"order: {name!r} comes after {each!r}, which is no step of the plan")
    return steps


def rounds(steps: Dict[str, Step], done: Set[str]) -> List[List[str]]:
    """Steps that can be done side by side, round after round."""
    left = {name for name in steps if name not in done}
    found: List[List[str]] = []
    while left:
        ready = sorted(name for name in left if not left & set(steps[name].after))
        if not ready:
            sys.exit(f"order: these steps wait for each other: {', '.join(circle(steps, left))}")
        found.append(ready)
        left -= set(ready)
    return found


def circle(steps: Dict[str, Step], left: Set[str]) -> List[str]:
    """A circle among steps of which each waits for another one."""
    way = [min(left)]
    while True:
        following = next(each for each in steps[way[-1]].after if each in left)
        if following in way:
            return [*way[way.index(following) :], following]
        way.append(following)


def longest(steps: Dict[str, Step], ordered: List[str]) -> Tuple[float, List[str]]:
    """The chain that takes longest, by its upper estimates."""
    best: Dict[str, Tuple[float, List[str]]] = {}
    for name in ordered:
        before = max((best[each] for each in steps[name].after if each in best), default=(0.0, []))
        best[name] = (before[0] + steps[name].most_h, [*before[1], name])
    return max(best.values(), default=(0.0, []))


def told(hours: float) -> str:
    """A time for people."""
    if hours >= 16:
        return f"{hours / 8:g} d"
    return f"{hours:g} h" if hours >= 1 or not hours else f"{round(hours * 60)} m"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--done", default="", help="steps that are done, with commas between them")
    options = parser.parse_args()
    try:
        steps = read(options.file)
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"order: cannot read {options.file}: {error}")
    done = {name.strip() for name in options.done.split(",") if name.strip()}
    if done - steps.keys():
        sys.exit(f"order: no steps of the plan: {', '.join(sorted(done - steps.keys()))}")
    found = rounds(steps, done)
    for number, names in enumerate(found, 1):
        shown = ", ".join(f"{name} ({told(steps[name].most_h)})" for name in names)
        print(f"{number}. {shown}")
    ordered = [name for names in found for name in names]
    length, chain = longest(steps, ordered)
    least = sum(steps[name].least_h for name in ordered)
    most = sum(steps[name].most_h for name in ordered)
    print(f"longest chain: {' -> '.join(chain)} ({told(length)})")
    print(f"work in all: {told(least)} to {told(most)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
