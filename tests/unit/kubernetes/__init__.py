"""Tests of kubernetes/: talking to an API server."""
