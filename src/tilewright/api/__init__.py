"""The Python API, as `import tilewright as tw`. Each part is imported when its name is first
used.
"""
