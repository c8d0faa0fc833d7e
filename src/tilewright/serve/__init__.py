"""The live page: a project's runs in a browser while other processes search."""
