"""The project's own build steps; each is what one target of the Makefile runs."""
