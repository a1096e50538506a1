"""Browser tests. A package, so that their files may be named like the tests they complete."""
