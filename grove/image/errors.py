"""What goes wrong with an image."""


class ImageError(Exception):
    """A failure the user can act on; its text is one sentence that says what happened and what to do."""
