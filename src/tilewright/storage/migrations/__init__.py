"""Alembic environment and revisions of the project database."""
