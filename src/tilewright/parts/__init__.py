"""What targets are put together from: inputs, comparison, error bounds, kernel folders, texts.

Lies under the targets; knows no accelerator.
"""
