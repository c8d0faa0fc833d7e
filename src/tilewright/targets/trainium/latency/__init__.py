"""The latency model: when each instruction of a traced kernel runs, without any data."""
