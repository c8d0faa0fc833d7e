"""From a kernel to what it computes, without its schedule, and from there to the naive loop nest.

execute (C to the commands it issues) -> flow (the sums that reach memory) -> nests (regular sets of
sums) -> generate (loop IR). All of it is analysis of one run with arrays at made-up addresses: the
commands that a kernel issues must not depend on what its arrays hold.
"""
