"""One folder per accelerator; each is reached through its `tilewright.targets` entry point."""
