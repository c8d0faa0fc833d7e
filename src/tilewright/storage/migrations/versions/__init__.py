"""Revisions, numbered 0001 upwards; each one only ever appended."""
