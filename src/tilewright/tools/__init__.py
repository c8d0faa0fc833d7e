"""What people, models and agents may ask while they work on a kernel: one set of tools for all."""
