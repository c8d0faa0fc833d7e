"""The live page, which shows the runs of a project in a browser while other processes search."""
