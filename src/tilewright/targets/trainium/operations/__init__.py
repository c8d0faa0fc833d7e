"""The operations of NKI. Each is one function for both versions: `dst=None` creates a fresh
tile."""
