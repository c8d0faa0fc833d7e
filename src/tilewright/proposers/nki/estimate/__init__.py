"""A rough time of a kernel from its instructions, without running anything."""
