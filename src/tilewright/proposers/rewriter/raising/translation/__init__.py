"""Translates the constructs of C to Python. `raising.translate` combines the parts."""
