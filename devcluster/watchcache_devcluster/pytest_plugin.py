"""The pytest plugin of the dev cluster."""
