"""Prompts, which are rendered from versioned templates and records."""
