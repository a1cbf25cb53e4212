"""What every part of the agent stands on."""

from msgspec import Struct

from agent_service.config import AgentConfig
from agent_service.security.threats import ThreatScanner
from agent_service.storage.claims import turn_leases
from agent_service.turns.message_assembly import Screening
from agent_service.turns.metrics import build_scanner
from services.clock import Clock
from services.config.settings import Settings
from services.database import Database
from services.database.leases import LeaseTable, Owner, new_owner
from services.redaction.redactor import Redactor
from services.runtime.config import ServiceConfig
from services.telemetry.metrics import Meter, redactions


class Core(Struct, frozen=True):
    """What every part of the agent stands on."""

    settings: Settings
    config: AgentConfig
    owner: Owner
    database: Database
    leases: LeaseTable
    clock: Clock
    meter: Meter
    redactor: Redactor
    scanner: ThreatScanner

    @property
    def screening(self) -> Screening:
        return Screening(self.scanner, self.redactor)

    @property
    def asks_taint(self) -> bool:
        """Whether strangers' text makes what follows ask first."""
        return self.config.fetch.taint == "ask"


def core_of(settings: Settings, meter: Meter, clock: Clock) -> Core:
    """Make it; nothing is opened yet."""
    config, chassis = settings.load(AgentConfig), settings.load(ServiceConfig)
    database = Database(chassis.database.url_of("agent", settings.home), "agent", clock)
    database.measure(meter)
    return Core(
        *(settings, config, new_owner(chassis.instance), database, turn_leases(config.lease_s)),
        *(clock, meter, settings.redactor(redactions(meter)), build_scanner(meter)),
    )
