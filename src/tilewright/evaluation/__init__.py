"""The evaluation pipeline: build, check and measure candidates in worker processes."""
