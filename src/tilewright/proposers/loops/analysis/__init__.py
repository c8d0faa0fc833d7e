"""What loops change, carry from one iteration to the next, and may share between threads."""
