"""One database per project folder. Only this package imports SQLAlchemy, and only when opened."""
