"""The tuner's side of TVM: programs, schedule spaces, building, measuring, MetaSchedule plug-ins.

The only package here that imports TVM. Every module of it is imported late, behind `loading`,
which says what to install where TVM is missing.
"""
