"""Checks that the output follows the target."""
