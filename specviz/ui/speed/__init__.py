"""The Speed page: is it faster here, and why."""
