"""Draftwell's decoder service."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("draftwell")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"
