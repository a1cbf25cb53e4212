"""A scripted model behind a real, OpenAI-compatible HTTP server."""
