"""Parts of the Rounds page."""
