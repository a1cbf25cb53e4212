"""Trajectories: what models did, as data to train with."""
