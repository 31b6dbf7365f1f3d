"""What can go wrong with a request, for callers to see."""

from __future__ import annotations


class DecoderError(Exception):
    """Base of all errors that callers of the decoder see."""


class InvalidRequestError(DecoderError):
    """A field has a value that cannot be served; the text names the field and the value."""


class OverloadedError(DecoderError):
    """The queue is full; trying again later may work."""


class StoppingError(DecoderError):
    """The service is going down; another replica can serve the request."""


class InternalError(DecoderError):
    """The engine failed; the log has the details."""
