"""Logs go to stderr: one line an event, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def configure_logging(log_format: Literal["console", "json"]) -> None:
    """Set up structlog for the process."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the stderr of the moment
    )
