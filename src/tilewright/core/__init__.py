"""Records, roles, errors and budget: the vocabulary every other package shares."""
