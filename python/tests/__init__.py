"""Tests of the host without a runtime; those with one are Rust tests."""
