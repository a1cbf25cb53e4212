"""An update from a hub that is killed before its write of a number: LIBRARY NUMBER."""

import asyncio
import sys
from pathlib import Path

from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.profiles.skills.hub.hub import HubOptions
from tests.support.dying import Steps
from tests.support.hubs import hub, made


def main() -> None:
    """Update until it is killed, or done."""
    library, left = sys.argv[1:]
    Steps(int(left))
    asyncio.run(made(hub(HomeSkillFiles(Path(library))).update(["notes"], HubOptions())))
