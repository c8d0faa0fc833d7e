"""The tools that people, models and agents use while they work on a kernel."""
