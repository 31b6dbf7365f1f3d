from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServingState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVING_STATE_UNSPECIFIED: _ClassVar[ServingState]
    SERVING_STATE_LOADING: _ClassVar[ServingState]
    SERVING_STATE_SERVING: _ClassVar[ServingState]
    SERVING_STATE_DEGRADED: _ClassVar[ServingState]
SERVING_STATE_UNSPECIFIED: ServingState
SERVING_STATE_LOADING: ServingState
SERVING_STATE_SERVING: ServingState
SERVING_STATE_DEGRADED: ServingState

class NamespaceRef(_message.Message):
    __slots__ = ("name", "fingerprint")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    name: str
    fingerprint: str
    def __init__(self, name: _Optional[str] = ..., fingerprint: _Optional[str] = ...) -> None: ...

class DraftLimits(_message.Message):
    __slots__ = ("max_nodes", "min_probability", "max_depth")
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MIN_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    max_nodes: int
    min_probability: float
    max_depth: int
    def __init__(self, max_nodes: _Optional[int] = ..., min_probability: _Optional[float] = ..., max_depth: _Optional[int] = ...) -> None: ...

class DraftQuery(_message.Message):
    __slots__ = ("namespace", "context", "limits", "shared_namespace")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SHARED_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: NamespaceRef
    context: _containers.RepeatedScalarFieldContainer[int]
    limits: DraftLimits
    shared_namespace: NamespaceRef
    def __init__(self, namespace: _Optional[_Union[NamespaceRef, _Mapping]] = ..., context: _Optional[_Iterable[int]] = ..., limits: _Optional[_Union[DraftLimits, _Mapping]] = ..., shared_namespace: _Optional[_Union[NamespaceRef, _Mapping]] = ...) -> None: ...

class DraftRequest(_message.Message):
    __slots__ = ("id", "queries")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    id: int
    queries: _containers.RepeatedCompositeFieldContainer[DraftQuery]
    def __init__(self, id: _Optional[int] = ..., queries: _Optional[_Iterable[_Union[DraftQuery, _Mapping]]] = ...) -> None: ...

class DraftError(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class DraftTree(_message.Message):
    __slots__ = ("tokens", "parents", "match_orders", "counts", "totals", "probabilities", "origins")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    MATCH_ORDERS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    parents: _containers.RepeatedScalarFieldContainer[int]
    match_orders: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    totals: _containers.RepeatedScalarFieldContainer[int]
    probabilities: _containers.RepeatedScalarFieldContainer[float]
    origins: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tokens: _Optional[_Iterable[int]] = ..., parents: _Optional[_Iterable[int]] = ..., match_orders: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., totals: _Optional[_Iterable[int]] = ..., probabilities: _Optional[_Iterable[float]] = ..., origins: _Optional[_Iterable[int]] = ...) -> None: ...

class DraftAnswer(_message.Message):
    __slots__ = ("draft", "error")
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    draft: DraftTree
    error: DraftError
    def __init__(self, draft: _Optional[_Union[DraftTree, _Mapping]] = ..., error: _Optional[_Union[DraftError, _Mapping]] = ...) -> None: ...

class DraftResponse(_message.Message):
    __slots__ = ("id", "answers")
    ID_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    id: int
    answers: _containers.RepeatedCompositeFieldContainer[DraftAnswer]
    def __init__(self, id: _Optional[int] = ..., answers: _Optional[_Iterable[_Union[DraftAnswer, _Mapping]]] = ...) -> None: ...

class SuggestRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: DraftQuery
    def __init__(self, query: _Optional[_Union[DraftQuery, _Mapping]] = ...) -> None: ...

class SuggestResponse(_message.Message):
    __slots__ = ("draft",)
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    draft: DraftTree
    def __init__(self, draft: _Optional[_Union[DraftTree, _Mapping]] = ...) -> None: ...

class LearnRequest(_message.Message):
    __slots__ = ("namespace", "sequence_id", "tokens", "context_len")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LEN_FIELD_NUMBER: _ClassVar[int]
    namespace: NamespaceRef
    sequence_id: str
    tokens: _containers.RepeatedScalarFieldContainer[int]
    context_len: int
    def __init__(self, namespace: _Optional[_Union[NamespaceRef, _Mapping]] = ..., sequence_id: _Optional[str] = ..., tokens: _Optional[_Iterable[int]] = ..., context_len: _Optional[int] = ...) -> None: ...

class LearnResponse(_message.Message):
    __slots__ = ("num_sequences", "num_tokens")
    NUM_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    num_sequences: int
    num_tokens: int
    def __init__(self, num_sequences: _Optional[int] = ..., num_tokens: _Optional[int] = ...) -> None: ...

class Namespace(_message.Message):
    __slots__ = ("name", "fingerprint", "vocab_size", "stats", "limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    fingerprint: str
    vocab_size: int
    stats: NamespaceStats
    limits: NamespaceLimits
    def __init__(self, name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., vocab_size: _Optional[int] = ..., stats: _Optional[_Union[NamespaceStats, _Mapping]] = ..., limits: _Optional[_Union[NamespaceLimits, _Mapping]] = ...) -> None: ...

class NamespaceLimits(_message.Message):
    __slots__ = ("max_bytes", "max_tokens_per_second", "text_ttl_seconds")
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    TEXT_TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_bytes: int
    max_tokens_per_second: int
    text_ttl_seconds: int
    def __init__(self, max_bytes: _Optional[int] = ..., max_tokens_per_second: _Optional[int] = ..., text_ttl_seconds: _Optional[int] = ...) -> None: ...

class NamespaceStats(_message.Message):
    __slots__ = ("num_sequences", "num_tokens", "num_nodes", "num_bytes", "num_lookups", "num_hits", "num_drafted_nodes", "num_pending", "num_evicted_tokens", "num_forgotten_sequences", "replication_lag_seconds", "snapshot_age_seconds", "snapshot_bytes", "log_bytes")
    NUM_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_NODES_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUM_LOOKUPS_FIELD_NUMBER: _ClassVar[int]
    NUM_HITS_FIELD_NUMBER: _ClassVar[int]
    NUM_DRAFTED_NODES_FIELD_NUMBER: _ClassVar[int]
    NUM_PENDING_FIELD_NUMBER: _ClassVar[int]
    NUM_EVICTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_FORGOTTEN_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    num_sequences: int
    num_tokens: int
    num_nodes: int
    num_bytes: int
    num_lookups: int
    num_hits: int
    num_drafted_nodes: int
    num_pending: int
    num_evicted_tokens: int
    num_forgotten_sequences: int
    replication_lag_seconds: float
    snapshot_age_seconds: float
    snapshot_bytes: int
    log_bytes: int
    def __init__(self, num_sequences: _Optional[int] = ..., num_tokens: _Optional[int] = ..., num_nodes: _Optional[int] = ..., num_bytes: _Optional[int] = ..., num_lookups: _Optional[int] = ..., num_hits: _Optional[int] = ..., num_drafted_nodes: _Optional[int] = ..., num_pending: _Optional[int] = ..., num_evicted_tokens: _Optional[int] = ..., num_forgotten_sequences: _Optional[int] = ..., replication_lag_seconds: _Optional[float] = ..., snapshot_age_seconds: _Optional[float] = ..., snapshot_bytes: _Optional[int] = ..., log_bytes: _Optional[int] = ...) -> None: ...

class CreateNamespaceRequest(_message.Message):
    __slots__ = ("namespace", "vocab_size", "limits")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    namespace: NamespaceRef
    vocab_size: int
    limits: NamespaceLimits
    def __init__(self, namespace: _Optional[_Union[NamespaceRef, _Mapping]] = ..., vocab_size: _Optional[int] = ..., limits: _Optional[_Union[NamespaceLimits, _Mapping]] = ...) -> None: ...

class CreateNamespaceResponse(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class GetNamespaceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetNamespaceResponse(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ("namespaces",)
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[Namespace]
    def __init__(self, namespaces: _Optional[_Iterable[_Union[Namespace, _Mapping]]] = ...) -> None: ...

class DeleteNamespaceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteNamespaceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdateNamespaceRequest(_message.Message):
    __slots__ = ("name", "limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    limits: NamespaceLimits
    def __init__(self, name: _Optional[str] = ..., limits: _Optional[_Union[NamespaceLimits, _Mapping]] = ...) -> None: ...

class UpdateNamespaceResponse(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class CopyNamespaceRequest(_message.Message):
    __slots__ = ("source", "target")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class CopyNamespaceResponse(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class ExportNamespaceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ExportNamespaceResponse(_message.Message):
    __slots__ = ("data", "total_bytes")
    DATA_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    total_bytes: int
    def __init__(self, data: _Optional[bytes] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class ImportNamespaceRequest(_message.Message):
    __slots__ = ("name", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    data: bytes
    def __init__(self, name: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class ImportNamespaceResponse(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("namespace", "sequence_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: NamespaceRef
    sequence_id: str
    def __init__(self, namespace: _Optional[_Union[NamespaceRef, _Mapping]] = ..., sequence_id: _Optional[str] = ...) -> None: ...

class ForgetResponse(_message.Message):
    __slots__ = ("num_tokens",)
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    num_tokens: int
    def __init__(self, num_tokens: _Optional[int] = ...) -> None: ...

class GetTopDraftsRequest(_message.Message):
    __slots__ = ("name", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class TopDraft(_message.Message):
    __slots__ = ("context", "tokens", "num_drafts")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_DRAFTS_FIELD_NUMBER: _ClassVar[int]
    context: _containers.RepeatedScalarFieldContainer[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    num_drafts: int
    def __init__(self, context: _Optional[_Iterable[int]] = ..., tokens: _Optional[_Iterable[int]] = ..., num_drafts: _Optional[int] = ...) -> None: ...

class GetTopDraftsResponse(_message.Message):
    __slots__ = ("drafts",)
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    drafts: _containers.RepeatedCompositeFieldContainer[TopDraft]
    def __init__(self, drafts: _Optional[_Iterable[_Union[TopDraft, _Mapping]]] = ...) -> None: ...

class WriteSnapshotRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WriteSnapshotResponse(_message.Message):
    __slots__ = ("num_bytes", "num_tokens", "num_trimmed")
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_TRIMMED_FIELD_NUMBER: _ClassVar[int]
    num_bytes: int
    num_tokens: int
    num_trimmed: int
    def __init__(self, num_bytes: _Optional[int] = ..., num_tokens: _Optional[int] = ..., num_trimmed: _Optional[int] = ...) -> None: ...

class VerifyNamespaceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class VerifyNamespaceResponse(_message.Message):
    __slots__ = ("problems", "digest", "num_applied")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NUM_APPLIED_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedScalarFieldContainer[str]
    digest: str
    num_applied: int
    def __init__(self, problems: _Optional[_Iterable[str]] = ..., digest: _Optional[str] = ..., num_applied: _Optional[int] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "state", "store", "uptime_seconds", "max_match_order")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_MATCH_ORDER_FIELD_NUMBER: _ClassVar[int]
    version: str
    state: ServingState
    store: str
    uptime_seconds: float
    max_match_order: int
    def __init__(self, version: _Optional[str] = ..., state: _Optional[_Union[ServingState, str]] = ..., store: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., max_match_order: _Optional[int] = ...) -> None: ...
