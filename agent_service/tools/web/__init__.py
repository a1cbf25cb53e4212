"""The web tools, their search engines and the extraction of text."""
