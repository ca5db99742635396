"""Helpers of several test modules."""
