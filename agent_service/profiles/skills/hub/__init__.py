"""Skills of others: found, looked through, installed as a whole, updated, removed, exported."""
