"""Timeouts of calls and connections."""

DEFAULT_UNARY_S = 30.0
"""The timeout of a unary call whose caller gives none."""

KEEPALIVE_INTERVAL_S = 20
"""How often a client pings a silent connection."""

SERVER_KEEPALIVE_INTERVAL_S = 30
"""How often a server pings a silent connection, to forget vanished clients."""

KEEPALIVE_TIMEOUT_S = 10
"""A connection without an answer for this long is dead."""

MIN_PING_INTERVAL_S = 10
"""The shortest interval of pings that a server accepts."""

CONNECTION_AGE_S = 600
"""After this, a server asks clients to reconnect, so that new replicas get their share."""

CONNECTION_AGE_GRACE_S = 3600
"""How long a stream may continue over a connection that has reached its age."""

RETIRE_GRACE_S = 3600
"""How long a client keeps a connection open for its streams after the certificate changed."""

DRAIN_S = 5.0
"""How long a component may take to release its work."""

STOP_GRACE_S = 5.0
"""How long unary calls may take to finish once the server stops."""

STALLED_READER_S = 300.0
"""How long a stream waits for a client that does not read."""
