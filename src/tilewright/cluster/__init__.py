"""Evaluations on other processes and machines, over dask.distributed (the extra `cluster`).

`executor.py` contains the `Executor`, `remote.py` the code that runs in a worker of the cluster,
and `messages.py` the messages between them, which are JSON and are checked field by field when they
are received.
"""
