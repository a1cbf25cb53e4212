"""The gateway's errors.

HermesError (services.errors)
├── AgentRefused          the agent said no; the reason is the agent's
└── UnknownPlatform       nothing that is connected here has this name
"""

from services.errors import HermesError, InvalidArgument


class AgentRefused(HermesError):
    """The agent said no, and would again; the reason is the agent's."""


class UnknownPlatform(InvalidArgument):
    """Nothing that is connected here has this name."""
