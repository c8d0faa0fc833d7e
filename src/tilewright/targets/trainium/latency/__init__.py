"""The latency model, which computes when each instruction of a traced kernel runs, without any
data."""
