"""What statements touch, hide and depend on, derived without changing a kernel."""
