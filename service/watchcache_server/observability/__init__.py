"""Metrics and logs: what the parts tell of themselves, for whoever runs the service."""
