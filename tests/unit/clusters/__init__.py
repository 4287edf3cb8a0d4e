"""Tests of clusters/: where clusters come from."""
