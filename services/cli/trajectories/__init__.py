"""`hermes trajectories`."""
