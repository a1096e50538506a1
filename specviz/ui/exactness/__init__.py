"""Parts of the Exactness page, one module a check."""
