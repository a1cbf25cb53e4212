"""`/tools` and `/model`: the agent's tools and models."""

from difflib import get_close_matches
from itertools import groupby

from gateway_service.chats.access import Who
from gateway_service.clients import call_agent
from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    code,
    render_list,
    simple_command,
    wrong,
)
from hermes.agent.v1 import model_catalog_pb2, session_change_pb2, tool_catalog_pb2
from services.amounts import dollars

SHOWN = 20
OWN = "endpoint"
"""The source of models that the endpoint lists."""
CONFIGURED = ("default", "none")
"""Words that reset a session to the configured model."""


async def _tools(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    request = tool_catalog_pb2.ListToolsRequest(profile=chat.profile, platform=chat.source.platform)
    found = (await call_agent(context.agent.tools.ListTools(request))).tools
    on = sorted((tool for tool in found if tool.enabled), key=lambda tool: tool.toolset)
    lines = [
        f"**{toolset}**: {', '.join(tool.name for tool in group)}"
        for toolset, group in groupby(on, lambda tool: tool.toolset)
    ]
    all_of_them = f"`hermes tools list --platform {chat.source.platform}` shows all tools"
    parts = [render_list(lines, all_of_them, 40)]
    off = [f"{tool.name}: {_lacks(tool)}" for tool in found if not tool.enabled]
    if off:
        parts.append(f"Off:\n{render_list(off, all_of_them)}")
    return Answer("\n\n".join(parts))


def _lacks(tool: tool_catalog_pb2.ToolInfo) -> str:
    if tool.reason:
        return tool.reason
    return f"set {' or '.join(tool.missing_settings)}" if tool.missing_settings else "off"


async def _show(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    found = await context.agent.session(chat.session_id, chat.profile)
    known = await _models(context, "", include_endpoint=chat.in_terminal)
    configured = known.default_model
    given = found.session.model if found is not None else ""
    own = [model for model in known.models if model.source == OWN]
    choices = [
        (", ".join([model.model_id, *_facts(model, configured)]), f"/model {model.model_id}")
        for model in own[:SHOWN]
    ]
    if given:
        text = (
            f"This session uses the model `{given}`. /model default returns to the configured "
            f"model, `{configured or 'none'}`."
        )
    else:
        text = (
            f"This session uses the configured model, `{configured or 'none'}`. /model list WORDS "
            "finds other models, and /model NAME selects one for this session."
        )
    return Answer(text, choices=choices)


async def _models(
    context: CommandContext, query: str, *, include_endpoint: bool
) -> model_catalog_pb2.ListModelsResponse:
    """Return the models whose ids contain all words of a query, and the configured one."""
    request = model_catalog_pb2.ListModelsRequest(query=query, include_endpoint=include_endpoint)
    return await call_agent(context.agent.models.ListModels(request))


async def _list(context: CommandContext, _chat: Chat, arguments: str) -> Answer:
    found = await _models(context, arguments, include_endpoint=True)
    if not found.models:
        return wrong(f"No model of the endpoint or the catalogue matches {code(arguments)}.")
    lines = [_line(model, found.default_model) for model in found.models]
    parts = [render_list(lines, "`/model list WORDS` searches them", SHOWN)]
    if found.endpoint_problem:
        parts.insert(0, f"The endpoint's own models are missing: {found.endpoint_problem}")
    return Answer("\n\n".join(parts))


async def _set(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    name = arguments.strip("` ")
    if not name:
        return wrong("Name a model: `/model NAME`. /model list WORDS searches for models.")
    wanted = "" if name.lower() in CONFIGURED else name
    warning = await _warning(context, wanted) if wanted else ""
    request = session_change_pb2.SetSessionModelRequest(
        session_id=chat.session_id,
        profile=chat.profile,
        model=wanted,
        platform=chat.source.platform,
    )
    await call_agent(context.agent.sessions.SetSessionModel(request))
    what = f"`{wanted}` answers" if wanted else "the configured model answers"
    # A chat without a session continues with the one that was given its model.
    return Answer(
        f"From your next message on, {what} in this session. The prompt stays the same, but the "
        f"provider has to read the whole conversation again, once.{warning}",
        chat.session_id,
    )


async def _warning(context: CommandContext, name: str) -> str:
    """Return a warning about a model that is not in the catalogue, but may exist."""
    known = await _models(context, "", include_endpoint=True)
    ids = [model.model_id for model in known.models]
    if name in ids or name == known.default_model:
        return ""
    near = get_close_matches(name, ids, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
    return (
        "\n\nNeither the endpoint nor the catalogue lists this model. If your next message fails, "
        f"/model default returns to the configured one.{meant}"
    )


def _line(model: model_catalog_pb2.ModelInfo, configured: str) -> str:
    return ", ".join([f"`{model.model_id}`", *_facts(model, configured)])


def _facts(model: model_catalog_pb2.ModelInfo, configured: str) -> list[str]:
    facts: list[str] = []
    if model.window_tokens:
        facts.append(f"{model.window_tokens // 1000:,}k tokens")
    price = model.price
    if price.input_micro_usd or price.output_micro_usd:
        prices = f"{dollars(price.input_micro_usd)}/{dollars(price.output_micro_usd)}"
        facts.append(f"{prices} a million")
    if model.model_id == configured:
        facts.append("configured")
    return facts


COMMANDS: tuple[Command, ...] = (
    Command(
        "model",
        Group.CHAT,
        "show, list or choose the model of this session",
        (
            Verb("show", "show the session's model", _show),
            Verb("list", "list models of the endpoint, then of the catalogue", _list, "[WORDS]"),
            Verb("set", "choose the session's model", _set, "NAME", Who.ADMINS, changes=True),
        ),
        "/model list claude",
        otherwise="set",
    ),
    simple_command(
        "tools", Group.KNOWLEDGE, Verb("", "list the tools, and what missing ones need", _tools)
    ),
)
