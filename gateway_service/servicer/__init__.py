"""The gateway's gRPC services, one module each."""
