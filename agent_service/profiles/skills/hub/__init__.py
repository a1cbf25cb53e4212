"""Skills from hubs: found, scanned, installed, updated, removed and exported."""
