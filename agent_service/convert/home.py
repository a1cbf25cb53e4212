"""Files of homes on the wire."""

from agent_service.convert.common import profile_of
from agent_service.home.base import Existing, Taken
from agent_service.home.moving import Outgoing
from hermes.agent.v1 import home_pb2 as pb
from services.errors import InvalidArgument
from services.home_files import HomeFile, LeftOut

_EXISTING: "dict[int, Existing]" = {
    pb.EXISTING_FILES_UNSPECIFIED: Existing.REFUSE,
    pb.EXISTING_FILES_REFUSE: Existing.REFUSE,
    pb.EXISTING_FILES_KEEP: Existing.KEEP,
    pb.EXISTING_FILES_REPLACE: Existing.REPLACE,
}
_USUAL_MODE = 0o600


def existing(wanted: int) -> Existing:
    """What becomes of files that are there; InvalidArgument where that is not known."""
    if wanted not in _EXISTING:
        raise InvalidArgument("not known", fields={"existing": "REFUSE, KEEP or REPLACE"})
    return _EXISTING[wanted]


def file_of(given: pb.HomeFile) -> HomeFile:
    """A file that comes in."""
    return HomeFile(
        profile_of(given.profile), given.path, given.size_bytes, given.mode or _USUAL_MODE
    )


def file_to_wire(file: HomeFile) -> pb.HomeFile:
    """A file that goes out."""
    return pb.HomeFile(
        profile=file.profile, path=file.path, size_bytes=file.size_bytes, mode=file.mode
    )


def summary(outgoing: Outgoing) -> pb.ExportHomeSummary:
    """What an export has."""
    return pb.ExportHomeSummary(
        profiles=outgoing.profiles,
        file_count=len(outgoing.files),
        size_bytes=sum(file.size_bytes for file in outgoing.files),
        left_out=map(_left_out, outgoing.left_out),
    )


def taken(became: Taken, session_count: int) -> pb.ImportHomeResponse:
    """What became of what came in."""
    return pb.ImportHomeResponse(
        added_count=len(became.added),
        replaced_count=len(became.replaced),
        kept_count=len(became.kept),
        unchanged_count=len(became.unchanged),
        left_out=map(_left_out, became.left_out),
        session_count=session_count,
    )


def _left_out(one: LeftOut) -> pb.HomeFileLeftOut:
    return pb.HomeFileLeftOut(profile=one.profile, path=one.path, reason=one.why)
