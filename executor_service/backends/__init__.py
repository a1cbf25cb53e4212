"""Ways to make boxes, behind one seam: `executor_service.backends.base`."""
