"""What a service's database tells Prometheus."""

from services.database.database import Database
from services.metrics import Meter


def show(database: Database, meter: Meter) -> None:
    """Show whether it answers; every service asks something of it at least each few seconds."""
    up = meter.gauge("hermes_database_up", "Whether the database did what was last asked of it.")
    up.set_function(lambda: float(database.is_up))
