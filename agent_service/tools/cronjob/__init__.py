"""The `cronjob` tool, and how it finds and shows jobs."""
