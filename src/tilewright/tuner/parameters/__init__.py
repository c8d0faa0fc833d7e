"""Search of the named parameters of a kernel template ([docs/templates.md]); numpy alone."""
