"""What the web tools stand on: search engines, and the text of pages."""
