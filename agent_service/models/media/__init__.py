"""Providers of speech, transcripts and pictures."""
