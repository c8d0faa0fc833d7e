"""Analyses of statements: what they access, what masks hide, and what they depend on."""
