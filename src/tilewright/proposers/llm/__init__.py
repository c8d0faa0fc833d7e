"""Proposers backed by language models of any provider."""
