"""Serving: the contract over gRPC, and the pages for operators over HTTP."""
