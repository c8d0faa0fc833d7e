"""The database of a project folder. Only this package imports SQLAlchemy, and only when a database
is opened.
"""
