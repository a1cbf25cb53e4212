"""The models of a deployment."""

from collections.abc import Callable

from msgspec import Struct

from agent_service.models.catalog import Catalog
from agent_service.models.configured_model import ConfiguredModel
from agent_service.models.consult import Consult
from agent_service.models.fallback import Chain, Route, RoutedModel
from agent_service.models.instrumented_model import InstrumentedModel


class ModelParts(Struct, frozen=True):
    """The models of a deployment."""

    first: ConfiguredModel
    routed: RoutedModel
    chain: Chain
    catalog: Catalog
    priced: InstrumentedModel
    consult: Consult
    is_local: Callable[[str], bool]
    """Whether the route of this name leads to a server of one's own."""
    notes: Route
    """The route for notes of long conversations; without a model it is their own."""
