"""Copies between the arena and a device's KV blocks: the only part of `impl` that needs torch."""
