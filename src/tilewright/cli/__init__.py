"""The command line, with one short module for each command. Large packages are imported only when a
command runs.
"""
