"""The executor measured by itself: its own process, reached over gRPC."""
