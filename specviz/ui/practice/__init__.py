"""Parts of the Practice page."""
