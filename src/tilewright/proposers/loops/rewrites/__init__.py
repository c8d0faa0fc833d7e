"""One module per rewrite; each shows a kernel before and after the rewrite."""
