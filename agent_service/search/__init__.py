"""What of a conversation is looked for, and how what somebody typed becomes a query."""
