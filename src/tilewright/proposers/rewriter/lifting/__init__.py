"""From C text to loop IR."""
