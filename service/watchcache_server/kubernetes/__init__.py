"""Talking to an API server: transport, requests, credentials, tokens, discovery."""
