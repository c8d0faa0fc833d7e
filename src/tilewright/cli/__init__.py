"""The command line: one short module per command; heavy imports wait until a command runs."""
