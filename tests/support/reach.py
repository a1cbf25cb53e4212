"""What tools reach besides the sandbox, where nothing of it is called."""

from typing import Any

from agent_service.config.tools import FetchConfig, MixtureConfig, SearchConfig
from agent_service.models.fallback import Route
from agent_service.security.threats import ThreatScanner
from agent_service.tools.builtin import Reach
from agent_service.tools.guards.taint import Screen
from agent_service.tools.web.engines import configured_web


def out_of_reach() -> Reach:
    """A reach of which only the web is there."""
    nobody: Any = None
    web = configured_web(FetchConfig(), SearchConfig())
    return Reach(web, Route(), MixtureConfig(), nobody, nobody, Screen(ThreatScanner()))
