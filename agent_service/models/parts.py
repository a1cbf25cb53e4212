"""The models of a deployment."""

from msgspec import Struct

from agent_service.models.catalog import Catalog
from agent_service.models.configured_model import ConfiguredModel
from agent_service.models.consult import Consult
from agent_service.models.fallback import Chain, Route, Routed
from agent_service.models.instrumented_model import InstrumentedModel


class ModelParts(Struct, frozen=True):
    """The models of a deployment."""

    first: ConfiguredModel
    """The configured one."""
    routed: Routed
    """All of them, by route."""
    chain: Chain
    catalog: Catalog
    priced: InstrumentedModel
    """The same as `routed`, without secrets, with what the catalogue knows of them, and counted."""
    consult: Consult
    """Asks the configured one single questions."""
    notes: Route
    """To what makes notes of long conversations; without a model it is their own."""
