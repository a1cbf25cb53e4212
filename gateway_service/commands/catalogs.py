"""`/tools` and `/model`: what the agent works with."""

from difflib import get_close_matches
from itertools import groupby

from gateway_service.authorization import Who
from gateway_service.clients.catalogs import ModelFacts, ToolFacts
from gateway_service.commands.base import Answer, Chat, Command, Group, Tools, Verb, plain, wrong
from gateway_service.commands.texts import code, dollars, listed

SHOWN = 20
CONFIGURED = ("default", "none")
"""Words that give a session the configured model again."""


async def _tools(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    found = await tools.clients.catalogs.tools(chat.profile, chat.source.platform)
    on = sorted((tool for tool in found if tool.is_on), key=lambda tool: tool.toolset)
    lines = [
        f"**{toolset}**: {', '.join(tool.name for tool in group)}"
        for toolset, group in groupby(on, lambda tool: tool.toolset)
    ]
    all_of_them = f"`hermes tools list --platform {chat.source.platform}` shows all of them"
    parts = [listed(lines, all_of_them, 40)]
    off = [f"{tool.name}: {_lacks(tool)}" for tool in found if not tool.is_on]
    if off:
        parts.append(f"Off:\n{listed(off, all_of_them)}")
    return Answer("\n\n".join(parts))


def _lacks(tool: ToolFacts) -> str:
    if tool.reason:
        return tool.reason
    return f"set {' or '.join(tool.missing)}" if tool.missing else "off"


async def _show(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    session = await tools.clients.sessions.get(chat.session_id, chat.profile)
    _, configured = await tools.clients.catalogs.models("")
    given = session.model if session is not None else ""
    if given:
        return Answer(
            f"This session has the model `{given}`; configured is `{configured or 'none'}`, to "
            "which /model default goes back."
        )
    return Answer(
        f"This session has the configured model, `{configured or 'none'}`. /model list WORDS finds "
        "others, /model NAME gives this session one."
    )


async def _list(tools: Tools, _chat: Chat, arguments: str) -> Answer:
    models, configured = await tools.clients.catalogs.models(arguments)
    if not models:
        return wrong(f"The catalogue has no model with {code(arguments)}.")
    lines = [_line(model, configured) for model in models]
    return Answer(listed(lines, "`/model list WORDS` finds some", SHOWN))


async def _set(tools: Tools, chat: Chat, arguments: str) -> Answer:
    name = arguments.strip("` ")
    if not name:
        return wrong("Say which: `/model NAME`; /model list WORDS finds them.")
    wanted = "" if name.lower() in CONFIGURED else name
    warning = await _warning(tools, wanted) if wanted else ""
    platform = chat.source.platform
    await tools.clients.catalogs.set_model(chat.session_id, chat.profile, wanted, platform)
    what = f"`{wanted}` answers" if wanted else "the configured model answers"
    # A chat that had no session goes on with the one that was given its model.
    return Answer(
        f"From the next message on {what} in this session. Its prompt stays; what the provider has "
        f"cached of the conversation is read anew.{warning}",
        chat.session_id,
    )


async def _warning(tools: Tools, name: str) -> str:
    """What a person is told of a model that nobody knows; it may be there all the same."""
    known, configured = await tools.clients.catalogs.models("")
    ids = [model.model_id for model in known]
    if name in ids or name == configured:
        return ""
    near = get_close_matches(name, ids, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""
    return (
        f"\n\nThe catalogue does not know it: if the next message fails, /model default goes "
        f"back.{meant}"
    )


def _line(model: ModelFacts, configured: str) -> str:
    facts = [f"`{model.model_id}`"]
    if model.window_tokens:
        facts.append(f"{model.window_tokens // 1000:,}k tokens")
    if model.input_micro_usd or model.output_micro_usd:
        prices = f"{dollars(model.input_micro_usd)}/{dollars(model.output_micro_usd)}"
        facts.append(f"{prices} a million")
    if model.model_id == configured:
        facts.append("configured")
    return ", ".join(facts)


COMMANDS: tuple[Command, ...] = (
    Command(
        "model",
        Group.CHAT,
        "which model answers in this session",
        (
            Verb("show", "show the session's model", _show),
            Verb("list", "the models of the catalogue", _list, "[WORDS]"),
            Verb("set", "give this session a model", _set, "NAME", Who.ADMINS, changes=True),
        ),
        "/model list claude",
        otherwise="set",
    ),
    plain(
        "tools", Group.KNOWLEDGE, Verb("", "which tools are on here, and what others miss", _tools)
    ),
)
"""Those of this module."""
