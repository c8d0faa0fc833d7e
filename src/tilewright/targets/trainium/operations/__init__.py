"""The operations of NKI, each one function for both versions: `dst=None` makes a fresh tile."""
