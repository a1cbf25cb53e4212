"""The external memory provider as configured."""

import logging
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from agent_service.config.sessions import HonchoConfig
from agent_service.profiles.memory.honcho import NAME, HonchoMemory, lack
from agent_service.profiles.memory.provider import NOT_CHOSEN, ExternalMemory
from agent_service.security.threats import ThreatScanner
from agent_service.tools.base import Tool
from agent_service.tools.guards.persistence import AskBeforeKeeping
from agent_service.tools.guards.taint import MEMORY_KEPT, Screen
from agent_service.tools.provider_tool import ProviderCall
from agent_service.tools.schema import Listed
from services.clock import Clock
from services.config.settings import Settings
from services.validation import json_object

_OLD_FILE = "honcho.json"
_OLD_NAMES = {
    "apiKey": "api_key",
    "baseUrl": "base_url",
    "workspace": "workspace",
    "peerName": "peer_name",
    "aiPeer": "ai_peer",
    "recallMode": "recall_mode",
    "contextTokens": "context_tokens",
    "dialecticReasoningLevel": "reasoning_level",
}
_log = logging.getLogger(__name__)


def honcho_config(settings: Settings) -> HonchoConfig:
    """Return the settings; what they lack is taken from `honcho.json` of an old home."""
    config, path = settings.load(HonchoConfig), settings.home.root / _OLD_FILE
    try:
        found = json_object(path.read_text("utf-8")) or {}
    except (OSError, UnicodeDecodeError):
        return config
    hosts: Any = found.get("hosts") or {}
    told: dict[str, Any] = {**found, **hosts.get("hermes", {})}
    old = {name: told[key] for key, name in _OLD_NAMES.items() if told.get(key)}
    given = {name: getattr(config, name) for name in config.model_fields_set}
    try:
        return HonchoConfig.model_validate({**old, **given})
    except ValidationError as error:
        _log.warning("%s is not used: %d of its values are wrong", path, error.error_count())
        return config


def why_unused(config: HonchoConfig) -> str:
    """Return why Honcho is not used; empty if it is."""
    return lack(config.setting) if config.provider == NAME else NOT_CHOSEN


def external_memory(settings: Settings, clock: Clock, scanner: ThreatScanner) -> ExternalMemory:
    """Return the provider; it does nothing unless it is configured."""
    config = honcho_config(settings)
    provider = HonchoMemory(config.setting, has_tools=config.recall_mode != "context")
    injects = config.recall_mode != "tools"
    lacking = why_unused(config)
    return ExternalMemory(
        NAME, provider, clock, scanner, lack=lacking, injects=injects, connected=provider.connected
    )


def listed_provider(external: ExternalMemory, screen: Screen, *, asks: bool) -> Sequence[Listed]:
    """Return the provider's tools, and why they are off."""
    listed: list[Listed] = []
    for each in external.provider.tools():
        tool: Tool[Any] = ProviderCall(external, each)
        tool = AskBeforeKeeping(tool, MEMORY_KEPT, screen, asks=asks) if each.saves else tool
        listed.append(Listed(tool, reason=external.lack))
    return listed
