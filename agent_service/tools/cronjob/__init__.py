"""The `cronjob` tool: finding jobs, and showing them."""
