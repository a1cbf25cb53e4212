"""`/platforms` and `/sethome`: how platforms are connected, and where messages to them go."""

from datetime import datetime

from sqlalchemy import Connection

from gateway_service.chats.access import Who
from gateway_service.commands.base import (
    NOT_IN_GROUPS,
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Places,
    Verb,
    code,
    render_list,
    simple_command,
    wrong,
)
from gateway_service.storage import channels
from gateway_service.storage.channels import Place
from gateway_service.storage.statuses import AccountStatus
from services.amounts import plural


async def _platforms(context: CommandContext, _chat: Chat, _arguments: str) -> Answer:
    found = await context.database.read(context.directory.statuses)
    if not found:
        return Answer("No platform is set up. To set one up: hermes setup")
    now = context.clock.now()
    return Answer(render_list([_line(each, now) for each in found], "hermes gateway status"))


def _line(found: AccountStatus, now: datetime) -> str:
    connection = found.connection
    facts = [found.state]
    if connection.connected_at is not None:
        facts[0] += f" for {_age(now, connection.connected_at)}"
    elif connection.problem:
        facts[0] += f" ({connection.problem})"
    if found.last_event_at is not None:
        facts.append(f"last event {_age(now, found.last_event_at)} ago")
    if found.waiting_inbox_count:
        facts.append(f"{plural(found.waiting_inbox_count, 'message')} in progress")
    if found.waiting_outbox_count:
        facts.append(f"{found.waiting_outbox_count} to send")
    if connection.rate_limited_until is not None and connection.rate_limited_until > now:
        facts.append(f"must wait {_age(connection.rate_limited_until, now)}")
    if found.holder:
        facts.append(f"held by {code(found.holder)}")
    return f"**{found.platform}** {code(found.account_id)}: {', '.join(facts)}"


def _age(later: datetime, earlier: datetime) -> str:
    seconds = max(0, int((later - earlier).total_seconds()))
    units = ((86_400, "d"), (3600, "h"), (60, "min"))
    return next(
        (f"{seconds // unit} {name}" for unit, name in units if seconds >= unit), f"{seconds} s"
    )


async def _set_home(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    source, now = chat.source, context.clock.now()
    place = Place(source.platform, source.chat_id, source.thread_id)
    await context.database.write(lambda conn: channels.choose_home(conn, chat.profile, place, now))
    where = "This thread" if source.thread_id else "This chat"
    return Answer(
        f"{where} is now the home channel of {source.platform}. It gets messages to "
        f"{source.platform} that name no chat."
    )


async def _clear_home(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    platform = chat.source.platform

    def clear(conn: Connection) -> tuple[bool, Place | None]:
        was_chosen = channels.clear_home(conn, chat.profile, platform)
        return was_chosen, context.directory.home_channels(conn, chat.profile).get(platform)

    was_chosen, home = await context.database.write(clear)
    if not was_chosen:
        return wrong(f"No chat was chosen as the home channel of {platform}.")
    rest = f"{code(f'{home}')} from the settings" if home else "none"
    return Answer(f"The home channel of {platform} is now {rest}.")


COMMANDS: tuple[Command, ...] = (
    simple_command(
        "platforms",
        Group.HERMES,
        Verb("", "show how the platforms are connected", _platforms, who=Who.ADMINS),
        places=NOT_IN_GROUPS,
    ),
    Command(
        "sethome",
        Group.HERMES,
        "make this chat the platform's home channel",
        (
            Verb("", "make this chat the platform's home channel", _set_home, "", Who.ADMINS, True),
            Verb("clear", "return to the one in the settings", _clear_home, "", Who.ADMINS, True),
        ),
        "/sethome",
        Places.PRIVATE | Places.GROUP,
    ),
)
