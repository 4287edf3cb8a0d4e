"""The real Kubernetes control plane for tests: built once, started on loopback."""
