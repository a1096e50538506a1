"""The interface's shared parts: what several pages show. Pages import from here, never the reverse."""
