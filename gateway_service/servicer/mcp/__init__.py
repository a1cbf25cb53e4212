"""The MCP server: what other agents and programs can ask of Hermes."""
