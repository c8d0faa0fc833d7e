"""Runs a kernel on external tools: Spike, Verilator and FireSim."""
