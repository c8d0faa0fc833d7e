"""Evaluations on other processes and machines, over dask.distributed (the extra `cluster`).

`executor.py` is the `Executor` role, `remote.py` what a worker of the cluster does, `messages.py`
what travels between them: JSON, checked field by field where it arrives.
"""
