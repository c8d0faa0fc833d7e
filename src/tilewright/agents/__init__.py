"""Command-line agents as proposers. An agent is started for one kernel, uses a socket, and is ended
with all its processes.
"""
