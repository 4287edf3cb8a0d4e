"""The project's tests, by what they need: nothing, a dev cluster, a real API server, or everything."""
