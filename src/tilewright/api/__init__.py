"""The Python API: what `import tilewright as tw` offers. It loads a part when its name is used."""
