"""The text of documents: which files are any, and what is written in them."""
