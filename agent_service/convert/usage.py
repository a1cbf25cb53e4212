"""What was used, on the wire."""

from datetime import date

from agent_service.convert.common import profile_of, usage
from agent_service.storage.usage import By, UsageQuery, UsageSum
from hermes.agent.v1 import usage_pb2 as pb
from services.errors import InvalidArgument

_BY = {
    pb.USAGE_GROUP_UNSPECIFIED: By.DAY,
    pb.USAGE_GROUP_DAY: By.DAY,
    pb.USAGE_GROUP_MODEL: By.MODEL,
    pb.USAGE_GROUP_SESSION: By.SESSION,
    pb.USAGE_GROUP_PROFILE: By.PROFILE,
}


def usage_query(request: pb.GetUsageRequest) -> UsageQuery:
    """A checked GetUsage; InvalidArgument names what is wrong."""
    by = _BY.get(request.group_by)
    if by is None:
        raise InvalidArgument("not a group", fields={"group_by": "a value of UsageGroup"})
    return UsageQuery(
        by=by,
        profile="" if request.all_profiles else profile_of(request.profile),
        session_id=request.session_id,
        since=_day("since_day", request.since_day),
        until=_day("until_day", request.until_day),
    )


def usage_sum(found: UsageSum) -> pb.UsageSum:
    """A sum on the wire."""
    return pb.UsageSum(key=found.key, usage=usage(found.usage))


def _day(field: str, text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise InvalidArgument(f"{field} is not a day", fields={field: "YYYY-MM-DD"}) from None
