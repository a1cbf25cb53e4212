"""Between the agent's protobuf messages and what its core works with."""
