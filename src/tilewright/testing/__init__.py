"""Contract suites and fakes for authors of targets, proposers, executors and storages."""
