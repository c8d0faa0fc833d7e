"""The report of a run: one self-contained HTML file that needs no network."""
