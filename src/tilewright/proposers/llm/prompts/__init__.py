"""Prompts: versioned templates, rendered from records and nothing else."""
