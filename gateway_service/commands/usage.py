"""`/usage`: what the conversation and the day have cost."""

from gateway_service.clients.usage import BudgetInfo, Used
from gateway_service.commands.base import Answer, Chat, Command, Group, Tools, Verb, plain
from gateway_service.commands.texts import counted, dollars


async def _usage(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    usage = tools.clients.usage
    lines = [f"**This session**: {_told(await usage.of_session(chat.session_id, chat.profile))}"]
    if (found := await usage.latest_day(chat.profile)) is not None:
        day, used = found
        # Days are those of the agent, which may be in another zone: its latest is named.
        lines.append(f"**{day}, all sessions**: {_told(used)}")
    budgets = await usage.budgets(chat.session_id, chat.profile)
    lines += [f"**Budget {each.scope}**: {_left(each)}" for each in budgets if each.has_limit]
    return Answer("\n".join(f"- {line}" for line in lines))


def _told(used: Used) -> str:
    if not used.call_count:
        return "nothing yet"
    cached = f" ({used.cached_tokens:,} cached)" if used.cached_tokens else ""
    return (
        f"{dollars(used.cost_micro_usd)}, {counted(used.call_count, 'call')}, "
        f"{used.prompt_tokens:,} tokens sent{cached}, {used.completion_tokens:,} received"
    )


def _left(budget: BudgetInfo) -> str:
    parts: list[str] = []
    if budget.limit_micro_usd:
        percent = budget.spent_micro_usd * 100 // budget.limit_micro_usd
        spent, limit = dollars(budget.spent_micro_usd), dollars(budget.limit_micro_usd)
        parts.append(f"{spent} of {limit} ({percent} %)")
    if budget.limit_tokens:
        percent = budget.spent_tokens * 100 // budget.limit_tokens
        parts.append(f"{budget.spent_tokens:,} of {budget.limit_tokens:,} tokens ({percent} %)")
    return ", ".join(parts)


COMMANDS: tuple[Command, ...] = (
    plain("usage", Group.CHAT, Verb("", "what this session and the day used, and budgets", _usage)),
)
"""Those of this module."""
