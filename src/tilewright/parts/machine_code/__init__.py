"""Machine code as it can be read: instructions by class, loops found from jumps, source lines."""
