"""The executor's gRPC services, one module a noun: they convert messages and call the core."""
