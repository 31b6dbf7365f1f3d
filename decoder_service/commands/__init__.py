"""The ``draftwell`` command for people."""
