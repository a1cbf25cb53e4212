"""The system prompt, layer by layer."""
