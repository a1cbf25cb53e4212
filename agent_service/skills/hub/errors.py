"""Why something of a hub is not had."""


class HubRefused(Exception):
    """It may not be installed, read or written as it is; the message says why and what to do."""


class HubFailed(Exception):
    """It may be had, and did not come: a server that does not answer, a repository that is gone."""
