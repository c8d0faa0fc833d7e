"""Converts C text to the intermediate form of loop nests."""
