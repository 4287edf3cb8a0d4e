"""The watchcache service: informers for controllers, served over gRPC."""
