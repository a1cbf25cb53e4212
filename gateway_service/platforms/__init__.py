"""The platforms on which people talk to Hermes."""
