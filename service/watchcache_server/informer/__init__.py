"""The informer core, pure: reflector, decoding, store, history, subscriptions."""
