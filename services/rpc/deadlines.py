"""The clocks of calls and connections."""

DEFAULT_UNARY_S = 30.0
"""How long a unary call may take when its caller does not say."""

KEEPALIVE_INTERVAL_S = 20
"""A client asks a silent connection for a sign of life this often."""

SERVER_KEEPALIVE_INTERVAL_S = 30
"""A server asks a silent connection this often, so that it forgets clients that vanished."""

KEEPALIVE_TIMEOUT_S = 10
"""A connection that gave no sign of life for this long is dead."""

MIN_PING_INTERVAL_S = 10
"""A server refuses clients that ask more often."""

CONNECTION_AGE_S = 600
"""A server asks clients to reconnect after this, so that new replicas get their share of calls."""

CONNECTION_AGE_GRACE_S = 3600
"""How long a stream may go on over a connection that has reached its age."""

RETIRE_GRACE_S = 3600
"""How long a client keeps a connection open for its streams after the certificate has changed."""

DRAIN_S = 5.0
"""How long a component may take to let go of its work."""

STOP_GRACE_S = 5.0
"""How long unary calls under way may take to finish once the server stops."""

STALLED_READER_S = 300.0
"""How long a stream waits for a client that does not read before it is ended."""
