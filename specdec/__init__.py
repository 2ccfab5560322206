"""A small, fast, exact library for speculative decoding."""
