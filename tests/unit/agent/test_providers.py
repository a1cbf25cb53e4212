"""Providers by name: where they are, which key goes there, what other programs call the same."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_service.assembly.models import COMPRESSION, endpoint_settings, notes_route
from agent_service.config import AgentConfig
from agent_service.models.endpoints import Api, Endpoint, configured_endpoint
from agent_service.models.fallback import USUAL, Route
from agent_service.models.openrouter import FLASH_MODEL
from agent_service.records.model_errors import InvalidEndpoint
from services.config.settings import Settings, load_settings

KEYS = {"OPENROUTER_API_KEY": "or-key", "OPENAI_API_KEY": "oa-key", "ANTHROPIC_API_KEY": "an-key"}


def configured(home: Path, text: str, variables: Mapping[str, str]) -> tuple[Settings, AgentConfig]:
    (home / "config.yaml").write_text(text)
    (home / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    settings = load_settings({"home": str(home)}, {})
    return settings, settings.load(AgentConfig)


def chosen(home: Path, text: str, **variables: str) -> Endpoint:
    endpoint = configured_endpoint(endpoint_settings(*configured(home, text, variables)))
    assert endpoint is not None
    return endpoint


def key(endpoint: Endpoint) -> str:
    return endpoint.api_key.get_secret_value()


@pytest.mark.parametrize("provider", ["openrouter", "openai", "anthropic"])
def test_a_known_provider_may_be_elsewhere_with_its_own_key(tmp_path: Path, provider: str) -> None:
    url = {f"{provider.upper()}_BASE_URL": "http://gateway:8000/v1"}
    endpoint = chosen(tmp_path, f"model: {{provider: {provider}, default: m}}", **KEYS, **url)
    assert (endpoint.provider, endpoint.model) == (provider, "m")
    assert key(endpoint) == KEYS[f"{provider.upper()}_API_KEY"]
    native = provider == "anthropic"
    # The SDK of Anthropic puts the version there itself.
    assert endpoint.base_url == ("http://gateway:8000" if native else "http://gateway:8000/v1")
    assert (endpoint.api is Api.MESSAGES) is native
    others = [name for name in ("openrouter", "openai") if name != provider]
    for other in others:
        assert "gateway" not in chosen(tmp_path, f"model: {{provider: {other}}}", **KEYS).base_url


def test_what_speaks_like_openai_may_want_no_key_and_any_model(tmp_path: Path) -> None:
    endpoint = chosen(tmp_path, "model: openai/gpt-oss", OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert (endpoint.model, key(endpoint), endpoint.source) == (
        "openai/gpt-oss",
        "",
        "OPENAI_BASE_URL",
    )


def test_a_url_alone_chooses_no_provider_that_wants_a_key(tmp_path: Path) -> None:
    variables = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com", "OPENAI_API_KEY": "oa-key"}
    assert chosen(tmp_path, "", **variables).provider == "openai"


def test_any_other_provider_is_found_by_its_variables(tmp_path: Path) -> None:
    endpoint = chosen(
        tmp_path,
        "model: {provider: deep-sea, default: m}",
        **KEYS,
        DEEP_SEA_BASE_URL="https://deep.example/v1",
        DEEP_SEA_API_KEY="deep-key",
    )
    assert (endpoint.base_url, key(endpoint)) == ("https://deep.example/v1", "deep-key")
    assert (endpoint.provider, endpoint.key_name) == ("deep-sea", "DEEP_SEA_API_KEY")


def test_a_provider_of_the_configuration_has_a_key_and_a_model_of_its_own(tmp_path: Path) -> None:
    providers = (
        "providers: {deep: {base_url: 'https://deep.example/anthropic', key_env: SEA_API_KEY, "
        "model: squid, request_timeout_seconds: 9}}\n"
    )
    endpoint = chosen(tmp_path, f"{providers}model: {{provider: deep}}", SEA_API_KEY="sea")
    assert (key(endpoint), endpoint.model, endpoint.api) == ("sea", "squid", Api.MESSAGES)
    assert endpoint.source == "providers.deep"


@pytest.mark.parametrize("name", ["api", "url"])
def test_what_older_homes_call_it_is_understood(tmp_path: Path, name: str) -> None:
    told = f"{name}: 'https://deep.example/v1', transport: anthropic_messages, default_model: squid"
    endpoint = chosen(tmp_path, f"providers: {{deep: {{{told}}}}}\nmodel: {{provider: deep}}")
    assert (endpoint.base_url, endpoint.model) == ("https://deep.example", "squid")
    assert endpoint.api is Api.MESSAGES


def test_a_provider_that_is_nowhere_is_not_replaced_by_another(tmp_path: Path) -> None:
    settings = endpoint_settings(*configured(tmp_path, "model: {provider: deep}", KEYS))
    with pytest.raises(InvalidEndpoint, match="set DEEP_BASE_URL and DEEP_API_KEY, or providers"):
        configured_endpoint(settings)


def test_its_key_goes_along_to_a_base_url_that_is_set_with_its_name(tmp_path: Path) -> None:
    text = "model: {{provider: {}, base_url: 'https://deep.example/v1', default: m}}"
    keys = {"DEEP_API_KEY": "deep-key", **KEYS}
    named = chosen(tmp_path, text.format("deep"), **keys)
    assert (key(named), named.key_name) == ("deep-key", "DEEP_API_KEY")
    assert key(chosen(tmp_path, text.format("openai"), **keys)) == ""
    assert key(chosen(tmp_path, text.format("deep"), HERMES_API_KEY="own", **keys)) == "own"


def test_all_keys_of_a_provider_are_used_where_it_is_elsewhere(tmp_path: Path) -> None:
    url = {"OPENAI_BASE_URL": "http://gateway/v1", "OPENAI_API_KEYS": "two,three"}
    endpoint = chosen(tmp_path, "", OPENAI_API_KEY="one", **url)
    more = [each.get_secret_value() for each in endpoint.more_keys]
    assert (key(endpoint), more) == ("one", ["two", "three"])
    own = chosen(
        tmp_path, "providers: {openai: {key_env: GATEWAY_TOKEN}}", GATEWAY_TOKEN="gate", **url
    )
    assert (key(own), own.more_keys, own.key_name) == ("gate", (), "GATEWAY_TOKEN")


NOTES = f"{COMPRESSION}: {{summary_model: old}}\n"
OWN = "auxiliary: {compression: {model: own}}\n"


@pytest.mark.parametrize(
    ("text", "variables", "route"),
    [
        ("", {"OPENROUTER_API_KEY": "k"}, Route(model=FLASH_MODEL)),
        ("model: {provider: anthropic}", KEYS, USUAL),
        ("", {}, USUAL),
        ("auxiliary: {compression: {provider: main}}", {"OPENROUTER_API_KEY": "k"}, USUAL),
        ("provider_routing: {only: [anthropic]}", {"OPENROUTER_API_KEY": "k"}, USUAL),
        (NOTES, {"OPENROUTER_API_KEY": "k"}, Route(model="old")),
        (OWN + NOTES, {"OPENROUTER_API_KEY": "k"}, Route(model="own")),
    ],
)
def test_notes_are_made_by_a_small_model_where_the_conversation_goes_there_anyway(
    tmp_path: Path, text: str, variables: Mapping[str, str], route: Route
) -> None:
    assert notes_route(*configured(tmp_path, text, variables)) == route
