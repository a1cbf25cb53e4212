"""What tools reach besides the sandbox, where nothing of it is called."""

from typing import Any

from agent_service.assembly.memory import listed_provider
from agent_service.config.tools import FetchConfig, MixtureConfig, SearchConfig
from agent_service.models.fallback import Route
from agent_service.profiles.memory.honcho import NAME, HonchoMemory, HonchoSettings
from agent_service.profiles.memory.provider import ExternalMemory
from agent_service.security.threats import ThreatScanner
from agent_service.tools.builtin import ToolResources
from agent_service.tools.guards.taint import Screen
from agent_service.tools.web.engines import configured_web
from services.clock import SystemClock


def out_of_reach() -> ToolResources:
    """A reach of which only the web is there."""
    nobody: Any = None
    web = configured_web(FetchConfig(), SearchConfig())
    scanner = ThreatScanner()
    external = ExternalMemory(NAME, HonchoMemory(HonchoSettings()), SystemClock(), scanner)
    screen = Screen(scanner)
    remembering = listed_provider(external, screen, asks=False)
    return ToolResources(web, Route(), MixtureConfig(), nobody, nobody, screen, remembering)
