"""The project's tests, in folders by what they need: nothing, an API server, or the whole."""
