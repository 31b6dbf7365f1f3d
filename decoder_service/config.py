"""The service's settings, from flags and from environment variables DRAFTWELL_DECODER_*.

The only module that reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from decoder_service.draft import LookaheadShape
from decoder_service.embedded_model import EMBEDDED
from decoder_service.errors import DecoderError
from decoder_service.namespace import NAME_RULE, is_namespace_name

ENV_PREFIX = "DRAFTWELL_DECODER_"
SOURCE_NAMES = ("own", "index", "lookahead", "model")


class ConfigError(DecoderError):
    """A setting is wrong; the text names it."""


def _check_address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT, for example 127.0.0.1:50051")
    return value


def _check_sources(value: str) -> str:
    unknown = [name for name in value.split(",") if name and name not in SOURCE_NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no draft source; there are {', '.join(SOURCE_NAMES)}")
    return value


def _check_lookahead(value: str) -> str:
    numbers = value.split(",")
    if len(numbers) != 3 or not all(number.strip().isdecimal() for number in numbers):
        raise ValueError(f"{value!r} is not W,N,G, for example 5,3,5")
    LookaheadShape(*map(int, numbers))
    return value


def _check_namespace(value: str) -> str:
    if value and not is_namespace_name(value):
        raise ValueError(f"{value[:140]!r} is not {NAME_RULE}")
    return value


def default_cache_folder() -> Path:
    """Where converted models are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "draftwell"


class DecoderConfig(BaseSettings):
    """All settings. Flags win over the environment, the environment over the defaults."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    listen: Annotated[str, AfterValidator(_check_address)] = "127.0.0.1:50051"  # port 0: a free one
    trie: str = ""  # address of the trie service, as gRPC writes targets; empty: no index
    model: str = EMBEDDED
    cache_folder: Path = Field(default_factory=default_cache_folder)
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    device: str = "cpu"
    # Of requests that do not say; empty: "default-" and the fingerprint's beginning.
    namespace: Annotated[str, AfterValidator(_check_namespace)] = ""
    draft_model: str = ""  # a smaller model with the same tokenizer; empty: none
    draft_depth: int = Field(8, ge=1, le=64)  # tokens that the draft model guesses ahead
    draft_width: int = Field(3, ge=1, le=64)  # tokens that it offers at each depth; 1: a chain
    draft_min_probability: float = Field(0.3, ge=0.0, le=1.0)  # of its guesses; below it they end or rest
    # Of requests that do not say; "index" and "model" only where there is one.
    drafts: Annotated[str, AfterValidator(_check_sources)] = "own,index,model"
    lookahead: Annotated[str, AfterValidator(_check_lookahead)] = "5,3,5"  # W,N,G of requests that do not say
    learn: bool = True  # whether the index learns outputs of requests that do not say
    draft_nodes: int = Field(24, ge=0, le=256)  # verified in one step, all requests together
    min_probability: float = Field(0.02, ge=0.0, le=1.0)  # of a draft node's path
    # Of a draft row, in plain steps; unset: measured at start, kept in the cache folder.
    row_cost: float | None = Field(None, ge=0.0, le=1.0)
    draft_deadline_ms: float = Field(10.0, gt=0.0, le=10_000.0)  # for the index's answer
    max_streams: int = Field(8, ge=1, le=256)  # requests that run at once
    max_queue: int = Field(64, ge=1, le=100_000)  # requests that are open at once
    max_context_len: int = Field(8192, ge=16)  # tokens of prompt and output
    cache_positions: int = Field(16384, ge=16)  # of all requests together
    prefill_rows: int = Field(128, ge=2, le=4096)  # of prompts in one step
    default_max_tokens: int = Field(512, ge=1)  # of requests that do not say
    threads: int = Field(0, ge=0, le=1024)  # 0: torch's default
    stop_grace_s: float = Field(5.0, ge=0.0, le=600.0)  # for requests in flight
    log_format: Literal["console", "json"] = "console"

    @property
    def lookahead_shape(self) -> LookaheadShape:
        """W, N and G."""
        return LookaheadShape(*map(int, self.lookahead.split(",")))

    @classmethod
    def load(cls, flags: Mapping[str, object]) -> DecoderConfig:
        """Settings from the environment and from the flags that are not None.

        ``flags`` has every flag of the command. Raises ConfigError, which names the settings that are wrong.
        """
        try:
            return cls.model_validate({name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise ConfigError("\n".join(_explain(problem, flags) for problem in error.errors())) from error


def _explain(problem: ErrorDetails, flags: Mapping[str, object]) -> str:
    name = ".".join(map(str, problem["loc"]))
    variable = f"{ENV_PREFIX}{name.upper()}"
    setting = f"--{name.replace('_', '-')} ({variable})" if name in flags else variable
    message = problem["msg"].removeprefix("Value error, ")
    return f"{setting}: {message}"
