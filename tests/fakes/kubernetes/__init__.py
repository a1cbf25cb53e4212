"""A stand-in for a Kubernetes cluster: its API over TLS, its pods as real hardened containers."""
