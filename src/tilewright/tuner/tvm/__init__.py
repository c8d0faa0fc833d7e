"""The tuner's side of TVM: programs, schedule spaces, building, measuring, MetaSchedule plug-ins.

Only this package imports TVM. Its modules are imported only when they are needed, through
`loading`, which explains how to install TVM if it is missing.
"""
