from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DesiredState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DESIRED_STATE_UNSPECIFIED: _ClassVar[DesiredState]
    DESIRED_STATE_ACTIVE: _ClassVar[DesiredState]
    DESIRED_STATE_DRAINING: _ClassVar[DesiredState]
    DESIRED_STATE_GONE: _ClassVar[DesiredState]

class ReplicaRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICA_ROLE_UNSPECIFIED: _ClassVar[ReplicaRole]
    REPLICA_ROLE_FULL: _ClassVar[ReplicaRole]
    REPLICA_ROLE_WITNESS: _ClassVar[ReplicaRole]
    REPLICA_ROLE_LEARNER: _ClassVar[ReplicaRole]

class AccessRight(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_RIGHT_UNSPECIFIED: _ClassVar[AccessRight]
    ACCESS_RIGHT_READ: _ClassVar[AccessRight]
    ACCESS_RIGHT_WRITE: _ClassVar[AccessRight]
    ACCESS_RIGHT_ADMIN: _ClassVar[AccessRight]
DESIRED_STATE_UNSPECIFIED: DesiredState
DESIRED_STATE_ACTIVE: DesiredState
DESIRED_STATE_DRAINING: DesiredState
DESIRED_STATE_GONE: DesiredState
REPLICA_ROLE_UNSPECIFIED: ReplicaRole
REPLICA_ROLE_FULL: ReplicaRole
REPLICA_ROLE_WITNESS: ReplicaRole
REPLICA_ROLE_LEARNER: ReplicaRole
ACCESS_RIGHT_UNSPECIFIED: AccessRight
ACCESS_RIGHT_READ: AccessRight
ACCESS_RIGHT_WRITE: AccessRight
ACCESS_RIGHT_ADMIN: AccessRight

class GetServerInfoRequest(_message.Message):
    __slots__ = ("client", "api_level")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    API_LEVEL_FIELD_NUMBER: _ClassVar[int]
    client: str
    api_level: int
    def __init__(self, client: _Optional[str] = ..., api_level: _Optional[int] = ...) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "cluster", "api_level", "api_level_min", "message_bytes_max", "handles_max", "batches_in_flight_max")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    API_LEVEL_FIELD_NUMBER: _ClassVar[int]
    API_LEVEL_MIN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    HANDLES_MAX_FIELD_NUMBER: _ClassVar[int]
    BATCHES_IN_FLIGHT_MAX_FIELD_NUMBER: _ClassVar[int]
    version: str
    cluster: str
    api_level: int
    api_level_min: int
    message_bytes_max: int
    handles_max: int
    batches_in_flight_max: int
    def __init__(self, version: _Optional[str] = ..., cluster: _Optional[str] = ..., api_level: _Optional[int] = ..., api_level_min: _Optional[int] = ..., message_bytes_max: _Optional[int] = ..., handles_max: _Optional[int] = ..., batches_in_flight_max: _Optional[int] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ("without_shards",)
    WITHOUT_SHARDS_FIELD_NUMBER: _ClassVar[int]
    without_shards: bool
    def __init__(self, without_shards: bool = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("cluster", "map_epoch", "shards", "replication", "nodes", "shard_statuses", "moves", "problems", "store_reachable", "moves_ahead")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MAP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SHARD_STATUSES_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    STORE_REACHABLE_FIELD_NUMBER: _ClassVar[int]
    MOVES_AHEAD_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    map_epoch: int
    shards: int
    replication: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    shard_statuses: _containers.RepeatedCompositeFieldContainer[ShardStatus]
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    problems: _containers.RepeatedScalarFieldContainer[str]
    store_reachable: bool
    moves_ahead: MovesAhead
    def __init__(self, cluster: _Optional[str] = ..., map_epoch: _Optional[int] = ..., shards: _Optional[int] = ..., replication: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., shard_statuses: _Optional[_Iterable[_Union[ShardStatus, _Mapping]]] = ..., moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., problems: _Optional[_Iterable[str]] = ..., store_reachable: bool = ..., moves_ahead: _Optional[_Union[MovesAhead, _Mapping]] = ...) -> None: ...

class MovesAhead(_message.Message):
    __slots__ = ("moves", "total_bytes", "done_bytes", "remaining_ms")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DONE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    moves: int
    total_bytes: int
    done_bytes: int
    remaining_ms: int
    def __init__(self, moves: _Optional[int] = ..., total_bytes: _Optional[int] = ..., done_bytes: _Optional[int] = ..., remaining_ms: _Optional[int] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("node", "incarnation", "address", "zone", "desired", "alive", "dead_ms", "capacity_bytes", "used_bytes", "version", "leads", "full_replicas", "witnesses", "learners", "refusal", "samples_applied")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    DEAD_MS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    FULL_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    WITNESSES_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_APPLIED_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: str
    address: str
    zone: str
    desired: DesiredState
    alive: bool
    dead_ms: int
    capacity_bytes: int
    used_bytes: int
    version: str
    leads: int
    full_replicas: int
    witnesses: int
    learners: int
    refusal: str
    samples_applied: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[str] = ..., address: _Optional[str] = ..., zone: _Optional[str] = ..., desired: _Optional[_Union[DesiredState, str]] = ..., alive: bool = ..., dead_ms: _Optional[int] = ..., capacity_bytes: _Optional[int] = ..., used_bytes: _Optional[int] = ..., version: _Optional[str] = ..., leads: _Optional[int] = ..., full_replicas: _Optional[int] = ..., witnesses: _Optional[int] = ..., learners: _Optional[int] = ..., refusal: _Optional[str] = ..., samples_applied: _Optional[int] = ...) -> None: ...

class ReplicaStatus(_message.Message):
    __slots__ = ("node", "incarnation", "raft_id", "role", "match_index", "active")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RAFT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: str
    raft_id: int
    role: ReplicaRole
    match_index: int
    active: bool
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[str] = ..., raft_id: _Optional[int] = ..., role: _Optional[_Union[ReplicaRole, str]] = ..., match_index: _Optional[int] = ..., active: bool = ...) -> None: ...

class ShardStatus(_message.Message):
    __slots__ = ("shard", "version", "era", "leader", "term", "commit_index", "members", "intended", "bytes", "losses_survived", "recovery", "recovered_ms", "recovered_newest_ms", "recovered_loss_ms_max")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    INTENDED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_SURVIVED_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_MS_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_NEWEST_MS_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_LOSS_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    shard: int
    version: int
    era: int
    leader: str
    term: int
    commit_index: int
    members: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    intended: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    bytes: int
    losses_survived: int
    recovery: ShardRecovery
    recovered_ms: int
    recovered_newest_ms: int
    recovered_loss_ms_max: int
    def __init__(self, shard: _Optional[int] = ..., version: _Optional[int] = ..., era: _Optional[int] = ..., leader: _Optional[str] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., members: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ..., intended: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ..., bytes: _Optional[int] = ..., losses_survived: _Optional[int] = ..., recovery: _Optional[_Union[ShardRecovery, _Mapping]] = ..., recovered_ms: _Optional[int] = ..., recovered_newest_ms: _Optional[int] = ..., recovered_loss_ms_max: _Optional[int] = ...) -> None: ...

class ShardRecovery(_message.Message):
    __slots__ = ("shard", "copies", "waits_for", "best", "automatic", "lost", "newest_ms", "loss_ms_max")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_MS_FIELD_NUMBER: _ClassVar[int]
    LOSS_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    shard: int
    copies: _containers.RepeatedCompositeFieldContainer[ShardCopy]
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    best: str
    automatic: bool
    lost: bool
    newest_ms: int
    loss_ms_max: int
    def __init__(self, shard: _Optional[int] = ..., copies: _Optional[_Iterable[_Union[ShardCopy, _Mapping]]] = ..., waits_for: _Optional[_Iterable[str]] = ..., best: _Optional[str] = ..., automatic: bool = ..., lost: bool = ..., newest_ms: _Optional[int] = ..., loss_ms_max: _Optional[int] = ...) -> None: ...

class ShardCopy(_message.Message):
    __slots__ = ("node", "role", "relic", "era", "term", "index", "unclear")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RELIC_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UNCLEAR_FIELD_NUMBER: _ClassVar[int]
    node: str
    role: ReplicaRole
    relic: bool
    era: int
    term: int
    index: int
    unclear: bool
    def __init__(self, node: _Optional[str] = ..., role: _Optional[_Union[ReplicaRole, str]] = ..., relic: bool = ..., era: _Optional[int] = ..., term: _Optional[int] = ..., index: _Optional[int] = ..., unclear: bool = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("shard", "from_node", "to_node", "phase", "done_bytes", "total_bytes", "remaining_ms", "bytes_per_second")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DONE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    shard: int
    from_node: str
    to_node: str
    phase: str
    done_bytes: int
    total_bytes: int
    remaining_ms: int
    bytes_per_second: int
    def __init__(self, shard: _Optional[int] = ..., from_node: _Optional[str] = ..., to_node: _Optional[str] = ..., phase: _Optional[str] = ..., done_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ..., remaining_ms: _Optional[int] = ..., bytes_per_second: _Optional[int] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("node", "dry_run")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    node: str
    dry_run: bool
    def __init__(self, node: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("moves", "total_bytes", "duration_ms")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    total_bytes: int
    duration_ms: int
    def __init__(self, moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., total_bytes: _Optional[int] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class UndrainRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class UndrainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ForecastRequest(_message.Message):
    __slots__ = ("drained", "undrained", "added")
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    UNDRAINED_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    drained: _containers.RepeatedScalarFieldContainer[str]
    undrained: _containers.RepeatedScalarFieldContainer[str]
    added: _containers.RepeatedCompositeFieldContainer[NewNode]
    def __init__(self, drained: _Optional[_Iterable[str]] = ..., undrained: _Optional[_Iterable[str]] = ..., added: _Optional[_Iterable[_Union[NewNode, _Mapping]]] = ...) -> None: ...

class NewNode(_message.Message):
    __slots__ = ("node", "zone", "capacity_bytes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    node: str
    zone: str
    capacity_bytes: int
    def __init__(self, node: _Optional[str] = ..., zone: _Optional[str] = ..., capacity_bytes: _Optional[int] = ...) -> None: ...

class ForecastResponse(_message.Message):
    __slots__ = ("moves", "total_bytes", "duration_ms", "refusal", "refused_shards", "under_replicated", "without_witness")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    REFUSED_SHARDS_FIELD_NUMBER: _ClassVar[int]
    UNDER_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_WITNESS_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    total_bytes: int
    duration_ms: int
    refusal: str
    refused_shards: _containers.RepeatedScalarFieldContainer[int]
    under_replicated: int
    without_witness: int
    def __init__(self, moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., total_bytes: _Optional[int] = ..., duration_ms: _Optional[int] = ..., refusal: _Optional[str] = ..., refused_shards: _Optional[_Iterable[int]] = ..., under_replicated: _Optional[int] = ..., without_witness: _Optional[int] = ...) -> None: ...

class RecoverRequest(_message.Message):
    __slots__ = ("shards", "dry_run", "begin_empty")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BEGIN_EMPTY_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedScalarFieldContainer[int]
    dry_run: bool
    begin_empty: bool
    def __init__(self, shards: _Optional[_Iterable[int]] = ..., dry_run: bool = ..., begin_empty: bool = ...) -> None: ...

class RecoverResponse(_message.Message):
    __slots__ = ("recoveries", "map_epoch")
    RECOVERIES_FIELD_NUMBER: _ClassVar[int]
    MAP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    recoveries: _containers.RepeatedCompositeFieldContainer[ShardRecovery]
    map_epoch: int
    def __init__(self, recoveries: _Optional[_Iterable[_Union[ShardRecovery, _Mapping]]] = ..., map_epoch: _Optional[int] = ...) -> None: ...

class DatabaseRight(_message.Message):
    __slots__ = ("database", "right")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    database: str
    right: AccessRight
    def __init__(self, database: _Optional[str] = ..., right: _Optional[_Union[AccessRight, str]] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("name", "rights", "lifetime_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    rights: _containers.RepeatedCompositeFieldContainer[DatabaseRight]
    lifetime_ms: int
    def __init__(self, name: _Optional[str] = ..., rights: _Optional[_Iterable[_Union[DatabaseRight, _Mapping]]] = ..., lifetime_ms: _Optional[int] = ...) -> None: ...

class CreateTokenResponse(_message.Message):
    __slots__ = ("secret", "token")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    secret: str
    token: Token
    def __init__(self, secret: _Optional[str] = ..., token: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTokensResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RevokeTokenResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: Token
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("id", "name", "creator", "parent", "rights", "created_ms", "expires_ms", "last_used_ms", "revoked_ms", "revoked_by", "refusal")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_MS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_BY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    creator: str
    parent: str
    rights: _containers.RepeatedCompositeFieldContainer[DatabaseRight]
    created_ms: int
    expires_ms: int
    last_used_ms: int
    revoked_ms: int
    revoked_by: str
    refusal: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., creator: _Optional[str] = ..., parent: _Optional[str] = ..., rights: _Optional[_Iterable[_Union[DatabaseRight, _Mapping]]] = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., last_used_ms: _Optional[int] = ..., revoked_ms: _Optional[int] = ..., revoked_by: _Optional[str] = ..., refusal: _Optional[str] = ...) -> None: ...
