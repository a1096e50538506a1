"""What can go wrong before a pair is ready."""


class LoadError(Exception):
    """A model cannot be loaded or used. The message is one or two sentences a user can act on."""


class FetchError(LoadError):
    """The built-in target could not be fetched or prepared."""


class IncompatiblePair(LoadError):
    """Target and draft disagree about what token ids mean."""
