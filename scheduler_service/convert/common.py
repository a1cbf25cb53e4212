"""What the scheduler's converters share."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1 import origin_pb2
from hermes.scheduler.v1 import schedule_pb2
from scheduler_service.jobs import Origin
from scheduler_service.schedule import Schedule
from services.home import DEFAULT_PROFILE

_KINDS = {
    "once": schedule_pb2.SCHEDULE_KIND_ONCE,
    "interval": schedule_pb2.SCHEDULE_KIND_INTERVAL,
    "cron": schedule_pb2.SCHEDULE_KIND_CRON,
}


def profile_of(name: str) -> str:
    """Return the profile that an empty field means."""
    return name or DEFAULT_PROFILE


def kind_to_wire(schedule: Schedule) -> "schedule_pb2.ScheduleKind.ValueType":
    """Return how a schedule repeats."""
    return _KINDS[schedule.kind]


def origin_to_wire(
    origin: Origin, trust: origin_pb2.Trust.ValueType = origin_pb2.TRUST_UNSPECIFIED
) -> origin_pb2.Origin:
    """Return the message of an origin."""
    return origin_pb2.Origin(
        platform=origin.platform,
        chat_id=origin.chat_id,
        thread_id=origin.thread_id,
        user_id=origin.user_id,
        user_name=origin.user_name,
        chat_type=origin.chat_type,
        trust=trust,
    )


def origin_of(message: origin_pb2.Origin) -> Origin:
    """Read an origin."""
    return Origin(
        platform=message.platform,
        chat_id=message.chat_id,
        thread_id=message.thread_id,
        user_id=message.user_id,
        user_name=message.user_name,
        chat_type=message.chat_type,
    )


def timestamp_to_wire(at: datetime | None) -> Timestamp | None:
    """Return the message of a time; None stays unset."""
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message
