"""Both formats, by name and by their lines."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from services.home.trajectories.openai_messages import openai_record, parse_openai, read_tools
from services.home.trajectories.sharegpt import parse_sharegpt, sharegpt_record
from services.home.trajectories.trajectory import Trajectory

Format = Literal["sharegpt", "openai"]
FORMATS: Mapping[Format, Callable[[Trajectory], dict[str, Any]]] = {
    "sharegpt": sharegpt_record,
    "openai": openai_record,
}


def parse_trajectory(line: bytes) -> Trajectory:
    """Read a line of either format; raises InvalidArgument."""
    is_openai = b'"messages"' in line and b'"conversations"' not in line
    trajectory = parse_openai(line) if is_openai else parse_sharegpt(line)
    read_tools(trajectory.tools)
    return trajectory
