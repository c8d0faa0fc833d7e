"""Records, roles, errors and budget, which all other packages use."""
