"""The `hermes` command: a client of the services, and what starts them."""
