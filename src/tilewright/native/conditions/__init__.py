"""Finds conditions on a kernel's input values that always had the same result in its checks.

The code for the other result of such a condition has not been tested
([decision 17](../../../docs/adr)).
"""
