"""Finds what a kernel computes without its schedule, and writes it as the naive loop nest.

The steps are execute (from C to the commands it issues), flow (the sums that reach memory), nests
(regular sets of sums) and generate (loop IR). They analyse a single run with arrays at artificial
addresses. Therefore, the commands that a kernel issues must not depend on the contents of its
arrays.
"""
