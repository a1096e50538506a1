"""Runs, pairs, jobs and links of a session."""
