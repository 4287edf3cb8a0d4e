"""Where clusters come from, and the clusters that the service knows by name."""
