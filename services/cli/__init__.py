"""The `hermes` command: a client of the services, which can also start them."""
