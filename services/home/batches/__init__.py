"""Batches: their data sets, environments and requests."""
