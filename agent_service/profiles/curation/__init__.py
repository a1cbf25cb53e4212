"""Curation of a skill library: merging, archiving, backups and restoring."""
