"""Names under which models call tools of MCP servers."""

import hashlib
import re
from collections.abc import Mapping, Sequence

MAX_NAME_CHARS = 64
"""The limit of model providers."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST_CHARS = 6


def model_names(server: str, tools: Sequence[str]) -> Mapping[str, str]:
    """A unique name for each tool, `mcp_<server>_<tool>` if that fits."""
    plain = {tool: _UNFIT.sub("_", f"mcp_{server}_{tool}") for tool in tools}
    taken = list(plain.values())
    return {
        tool: name
        if len(name) <= MAX_NAME_CHARS and taken.count(name) == 1
        else _shortened(name, f"{server}/{tool}")
        for tool, name in plain.items()
    }


def _shortened(name: str, full: str) -> str:
    digest = hashlib.sha256(full.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"
