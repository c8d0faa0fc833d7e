"""What a kernel of commands computes and touches, derived without changing it."""
