"""What goes wrong with the embedded cluster."""


class ClusterError(Exception):
    """A failure the user can act on; its text is one sentence that says what happened and what to do."""
