"""The service's settings, from flags and from environment variables DRAFTWELL_TRIE_*.

The only module that reads the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from trie_service.errors import ConfigError

ENV_PREFIX = "DRAFTWELL_TRIE_"
MIN_NAMESPACE_BYTES = 1 << 20
REDIS_SCHEMES = ("embedded:", "redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://")


def _check_listen(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT, for example 127.0.0.1:50052")
    return value


def _check_redis(value: str) -> str:
    if not value.startswith(REDIS_SCHEMES):
        raise ValueError(f"a store is one of {', '.join(REDIS_SCHEMES)}")
    return value


def _check_metrics_listen(value: str) -> str:
    return _check_listen(value) if value else value


def _check_max_bytes(value: ByteSize) -> ByteSize:
    if value < MIN_NAMESPACE_BYTES:
        raise ValueError(f"{int(value)} bytes are too few, at least {MIN_NAMESPACE_BYTES}")
    return value


class TrieConfig(BaseSettings):
    """All settings. Flags win over the environment, the environment over the defaults."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    listen: Annotated[str, AfterValidator(_check_listen)] = "127.0.0.1:50052"  # port 0: a free one
    redis: Annotated[str, AfterValidator(_check_redis)] = "embedded:"
    auto_create: bool = True  # create an unknown namespace on Learn with a fingerprint
    max_bytes: Annotated[ByteSize, AfterValidator(_check_max_bytes)] = ByteSize(256 << 20)  # a namespace
    max_total_bytes: ByteSize = ByteSize(0)  # all namespaces together; 0: no bound
    max_namespaces: int = Field(0, ge=0)  # 0: no bound
    max_tokens_per_second: int = Field(0, ge=0)  # learned, a namespace that does not say; 0: no bound
    max_total_tokens_per_second: int = Field(0, ge=0)  # learned, all namespaces together; 0: no bound
    text_ttl_s: int = Field(0, ge=0)  # of a namespace that does not say; 0: text is kept
    max_order: int = Field(16, ge=1, le=32)  # longest suffix that is matched
    draft_nodes: int = Field(64, ge=1, le=1024)  # of queries that do not say
    draft_depth: int = Field(40, ge=1, le=256)  # of queries that do not say
    stop_grace_s: float = Field(2.0, ge=0.0, le=60.0)  # for calls in flight
    snapshot_interval_s: float = Field(60.0, gt=0.0)  # between two snapshots of a namespace, at least
    snapshot_log_bytes: ByteSize = ByteSize(8 << 20)  # of tokens: so long a log is worth a snapshot
    snapshot_keep_s: float = Field(60.0, ge=0.0)  # younger entries stay in the log
    snapshot_lease_s: float = Field(10.0, gt=0.0)  # a writer that was killed holds others up for so long
    snapshot_grace_s: float = Field(
        30.0, ge=0.0
    )  # a replica that lost text waits so long for one that has it
    metrics_listen: Annotated[str, AfterValidator(_check_metrics_listen)] = (
        ""  # empty: off; port 0: a free one
    )
    metrics_namespaces: int = Field(20, ge=0, le=1000)  # with a label of their own
    log_format: Literal["console", "json"] = "console"

    @classmethod
    def load(cls, flags: Mapping[str, object]) -> TrieConfig:
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
