"""The agent's gRPC services, one module each: they only convert and call the core."""
