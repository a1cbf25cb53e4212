"""The executor's gRPC services, one module each: they convert and call the core, nothing else."""
