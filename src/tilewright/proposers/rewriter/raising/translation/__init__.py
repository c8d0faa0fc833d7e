"""C to Python, construct by construct; `raising.translate` puts the parts together."""
