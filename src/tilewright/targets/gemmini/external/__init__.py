"""Runs a kernel on the real tools beside the embedded simulator: Spike, Verilator, FireSim."""
