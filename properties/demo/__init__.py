"""A model that cannot tell that its KV cache was offloaded: what `tierproof demo` runs."""
