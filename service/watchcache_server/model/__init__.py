"""The words that every layer shares: specs, keys, states, errors. Pure."""
