"""Command-line agents as proposers: started for one kernel, heard over a socket, ended with all."""
