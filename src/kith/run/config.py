"""Settings as one table, read from `kith.toml`, then `KITH_*` variables, then flags; the later source wins.

Each field of `Settings` is one setting. `kith settings` prints its default and meaning, and docs/operations.md lists
them (a test compares the two).
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from kith.core.errors import BadRequest
from kith.log.store import LEASES_MAX
from kith.outbound.addresses import networks_of

FILE = "kith.toml"
PREFIX = "KITH_"
_SECRET_CHARS_MIN = 32
_KEY_CHARS_MIN = 20
_SIMILARITY_MIN = 0.5
"""Least similarity (0 to 1) of a setting to a wrong name for it to be suggested."""
_NOT_A_SETTING = re.compile(
    r"serve_(settings|sources|supervisor|heartbeat)|(replay|primary)_key"  # between processes, and of commands
    r"|(data|test|fault|bench)_\w+"  # of tests
    r"|(\w+_)?(service_(host|port\w*)|port_\d+_(tcp|udp|sctp)\w*)"  # set by Kubernetes for a service called kith
)
"""Variables with our prefix that are no settings."""
LEASES_OF_OTHERS = 20
"""Leases of the log that are reserved for standbys, backups and rebuilds; webhooks may use the rest."""
Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]

Origin = Annotated[str, Meta(pattern=r"^(\*|[a-z][a-z0-9+.-]*://[^/?#*\sA-Z]+)$")]
"""An origin as a browser sends it: scheme, host, and the port if it is not the default; no path, not even a `/`."""

OwnGraph = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]

FlockGraph = Annotated[str, Meta(pattern=r"^\d{1,9}=[a-z][a-z0-9_]{0,31}$")]
"""A graph's id in FlockDB, and its name here."""

PeerUrl = Annotated[str, Meta(pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")]
"""An address of another machine. It is logged, so it holds no password; machines authenticate by the store's key."""

_Contact = Annotated[str, Meta(pattern=r"^((mailto:|https://)[!-~]+)?$")]
_PUSH_HOSTS = ("fcm.googleapis.com", "push.services.mozilla.com", "push.apple.com", "notify.windows.com")
_USER_OF_URL = re.compile(r"//[^/\s]*@")  # and the password
_WORKERS_MAX = 64
_STORE_BYTES_MAX = 1 << 46
"""Half of the address space of a process on common machines."""
READ_MEMORY_MB = 340
"""Size in MB of all read caches of an API process when they are full: the sum of the bounds that each cache names."""


def _doc(text: str) -> Meta:
    return Meta(description=text)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. The meaning of a limit that a request may exceed names the error that the request gets."""

    data: Annotated[str, _doc("Folder of the embedded engine.")] = "kith-data"
    engine: Annotated[
        Literal["folder", "cluster"],
        _doc(
            "folder: all data in `data`, on this machine. cluster: on Cassandra, Kafka and Redis, see docs/cluster.md."
        ),
    ] = "folder"
    cassandra: Annotated[str, _doc("Nodes of Cassandra, for `engine = cluster`: HOST:PORT,HOST:PORT.")] = ""
    cassandra_keyspace: Annotated[
        str,
        Meta(pattern=r"^[a-z][a-z0-9_]{0,40}$"),
        _doc("Keyspace in Cassandra; also the prefix of Kafka topics and Redis keys."),
    ] = "kith"
    cassandra_datacentre: Annotated[
        str, _doc("Datacentre whose nodes this process uses; empty: that of the first node that answers.")
    ] = ""
    cassandra_username: Annotated[str, _doc("User that logs in to Cassandra; empty: no login.")] = ""
    cassandra_password: Annotated[str, _doc("Password of that user; a secret.")] = ""
    kafka: Annotated[str, _doc("Brokers of Kafka, for `engine = cluster`: HOST:PORT,HOST:PORT.")] = ""
    cluster_partitions: Annotated[
        int,
        Meta(ge=1, le=1_000),
        _doc("Partitions by which writes are divided among workers; cannot be changed later."),
    ] = 16
    cluster_copies: Annotated[
        int, Meta(ge=1, le=7), _doc("Replicas of each row, and of each record of the log, in a datacentre.")
    ] = 3
    host: Annotated[str, _doc("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535), _doc("Port to listen on.")] = 7400
    workers: Annotated[
        int, Meta(ge=0, le=_WORKERS_MAX), _doc("API processes; all share the data folder. 0: one per core.")
    ] = 0
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _doc("Least severe message that is logged.")] = (
        "info"
    )

    api_keys: Annotated[
        tuple[str, ...], _doc("Server keys, besides those made by `kith token --server`. Kept hashed in memory.")
    ] = ()
    jwt_secret: Annotated[
        str, _doc("Secret your app signs user tokens with, 32 characters or more; empty: one is made and stored.")
    ] = ""
    jwt_algorithms: Annotated[
        tuple[Literal["HS256", "HS384", "HS512"], ...], Meta(min_length=1), _doc("Signatures accepted on user tokens.")
    ] = ("HS256",)
    jwt_issuer: Annotated[str, _doc("Required `iss` of user tokens.")] = "kith-app"
    jwt_audience: Annotated[str, _doc("Required `aud` of user tokens.")] = "kith"

    cors_origins: Annotated[
        tuple[Origin, ...],
        _doc("Origins whose web pages may use the API, such as `https://app.example`; `*`: any origin."),
    ] = ()

    web_app: Annotated[
        Literal["on", "off"], _doc("Whether `/app` serves the reader, a web page for users with a token.")
    ] = "on"

    graphs: Annotated[
        tuple[OwnGraph, ...],
        _doc("Graphs of your own, besides the built-in ones: names of a-z, 0-9 and _, 32 characters at most."),
    ] = ()
    flockdb_graphs: Annotated[
        tuple[FlockGraph, ...], _doc("The ids of graphs for clients of `kith flockdb`, such as `1=follows`.")
    ] = ()
    follows_max: Annotated[Positive, _doc("Users that one user may follow; beyond: FOLLOW_LIMIT_REACHED.")] = 10_000
    batch_max: Annotated[
        int, Meta(ge=1, le=10_000), _doc("Pairs, edges or targets in a request; beyond: BATCH_TOO_LARGE.")
    ] = 1_000
    walk_max: Annotated[Positive, _doc("List entries that one page of friends or mutuals may read.")] = 10_000
    select_ids_max: Annotated[
        Positive, _doc("Ids one set program may read into memory; beyond: PROGRAM_TOO_COMPLEX.")
    ] = 5_000_000

    durability: Annotated[
        Literal["full", "relaxed"],
        _doc(
            "full: a write is synced before it is acknowledged. relaxed: a power cut may lose the last commits, "
            "which watchers and standbys may have seen already; the store stays consistent, and a crash of Kith "
            "alone loses nothing."
        ),
    ] = "full"
    store_bytes_max: Annotated[
        int,
        Meta(ge=1 << 20, le=_STORE_BYTES_MAX),
        _doc("Size the store may grow to; beyond: STORE_FULL. Address space, not memory."),
    ] = 1 << 40
    commit_writes_max: Annotated[Positive, _doc("Writes grouped into one commit at most.")] = 5_000
    commit_wait_ms: Annotated[
        float, Meta(ge=0, le=1000), _doc("How long the first write of a group waits for others.")
    ] = 0.0
    commit_queue_max: Annotated[Positive, _doc("Writes that may wait for a commit; beyond: OVERLOADED.")] = 100_000
    log_events_max: Annotated[Positive, _doc("Events that the log keeps; beyond, the oldest are dropped.")] = 10_000_000
    log_bytes_max: Annotated[
        int, Meta(ge=1 << 16), _doc("Size of the log in bytes; beyond, the oldest events are dropped.")
    ] = 1 << 32
    log_keep_hours: Annotated[
        int, Meta(ge=0), _doc("Hours after which an event is dropped; 0: dropped only by number and size.")
    ] = 0
    log_lease_hours: Annotated[
        Positive, _doc("Hours that the log keeps events for a lease whose holder does not return.")
    ] = 72
    log_leased_bytes_max: Annotated[
        int,
        Meta(ge=1 << 16),
        _doc("Size of the log in bytes up to which leases keep it; beyond, the slowest holder loses its lease."),
    ] = 1 << 34

    standby_mode: Annotated[
        Literal["async", "one"],
        _doc("one: a write is answered once one standby has it durably. async: at once; standbys lag a moment."),
    ] = "async"
    standby_timeout_ms: Annotated[
        Positive, _doc("Mode `one`: longest a write waits for a standby; beyond: OUTCOME_UNKNOWN.")
    ] = 2_000

    peers: Annotated[
        tuple[PeerUrl, ...],
        _doc(
            "Addresses of the other machines, such as `http://10.0.0.2:7400`. At its start and after a pause, a "
            "primary asks them whether another machine was promoted in its place."
        ),
    ] = ()

    log_tries_max: Annotated[
        Positive, _doc("Attempts at a failing event before it is a dead event, for `kith dead`.")
    ] = 8

    timelines_folder: Annotated[
        str,
        _doc(
            "Folder of home timelines; empty: in the data folder. For millions of them, use a folder in memory (tmpfs)."
        ),
    ] = ""
    redis: Annotated[
        str,
        _doc("Nodes of a Redis Cluster, HOST:PORT,HOST:PORT: for home timelines; on a cluster also quotas, presence."),
    ] = ""
    redis_password: Annotated[str, _doc("Password of that Redis Cluster; a secret.")] = ""
    checks_snapshots: Annotated[
        str,
        _doc(
            "On a cluster: a folder shared by all machines, or s3://bucket/prefix, for snapshots of the filter "
            "that answers checks first; empty: no filter, Cassandra answers all checks."
        ),
    ] = ""
    checks_edges_max: Annotated[
        Positive, _doc("Follows and blocks that the filter may hold, 1.7 bytes each per process; beyond: no filter.")
    ] = 100_000_000
    timelines_max: Annotated[
        Positive, _doc("Home timelines that are kept ready, about 4.4 KB each; beyond, the longest-unread is evicted.")
    ] = 100_000
    read_memory_mb: Annotated[
        Positive,
        _doc("Size of an API process's cache of what it has read, in MB, approximately."),
    ] = READ_MEMORY_MB
    timeline_days: Annotated[Positive, _doc("Days without a read after which a timeline is evicted.")] = 7
    fanout_policy: Annotated[
        Literal["followers", "rates"],
        _doc(
            "What decides whether a post is pushed. followers: the author's number of followers. rates: how often "
            "the author posts and each reader reads."
        ),
    ] = "followers"
    fanout_pull_cost: Annotated[
        float,
        Meta(ge=0.01, le=1e6),
        _doc("Policy `rates`: the cost of looking up one author in a read, in pushes."),
    ] = 100.0
    fanout_push_max: Annotated[
        Positive, _doc("Followers from which on a post is pushed in chunks; meanwhile, readers look it up.")
    ] = 10_000
    fanout_pull_min: Annotated[Positive, _doc("Followers beyond which posts are not pushed; readers look them up.")] = (
        1_000_000
    )

    served_log_share: Annotated[
        float, Meta(ge=0, le=1), _doc("Share of ranked pages whose features are logged in `served/`, as training data.")
    ] = 1.0
    served_log_bytes_max: Annotated[
        Positive, _doc("Size of `served/` in bytes; beyond, the oldest files are deleted.")
    ] = 1 << 30
    suggestions_minutes: Annotated[
        Positive,
        _doc("Minutes that suggestions for a reader are cached. Whether they may be shown is checked on every read."),
    ] = 15
    suggestions_hours: Annotated[Positive, _doc("Hours that the results of `kith suggest` are served.")] = 24
    suggestions_kept: Annotated[
        int,
        Meta(ge=1, le=1_000),
        _doc(
            "Suggestions per user that `kith suggest` stores, 16 bytes each; a user who scrolls past them gets a "
            "new ranking."
        ),
    ] = 100

    celebrity_followers_min: Annotated[
        int,
        Meta(ge=1),
        _doc(
            "Followers from which on a mention of an account is pushed to recently active followers only; others "
            "who asked for it find it in their inbox."
        ),
    ] = 1_000_000
    mention_workers_online: Annotated[
        NotNegative,
        _doc("Processes that notify online followers of mentions. 0: they share the process of the small workers."),
    ] = 0
    mention_workers_day: Annotated[
        NotNegative, _doc("The same for followers active within a day, and for all followers of smaller accounts.")
    ] = 0
    mention_workers_month: Annotated[NotNegative, _doc("The same for followers active within 30 days.")] = 1
    story_hours: Annotated[
        int,
        Meta(ge=1, le=8_760),
        _doc("Hours that a story is visible; then nobody finds it, and its space is reclaimed."),
    ] = 24

    streams_max: Annotated[
        Positive, _doc("Streams one API process holds open; beyond: OVERLOADED. Each takes a file descriptor.")
    ] = 10_000
    streams_user_max: Annotated[
        Positive, _doc("Streams one user may hold open in one API process; beyond: TOO_MANY_STREAMS.")
    ] = 10
    watchers_max: Annotated[Positive, _doc("Readers of /watch one API process holds open; beyond: OVERLOADED.")] = 1_000
    webhooks_max: Annotated[
        int,
        Meta(ge=1, le=LEASES_MAX - LEASES_OF_OTHERS),
        _doc("Webhooks, 80 at most; beyond: WEBHOOK_LIMIT_REACHED. Each reads the log on its own, under a lease."),
    ] = 20
    webhook_retry_hours: Annotated[
        float,
        Meta(ge=0, le=720),
        _doc("Hours that a failed delivery to a webhook is retried; then it is a dead letter."),
    ] = 24.0
    outbound_networks: Annotated[
        tuple[str, ...],
        _doc("Non-public networks that webhooks may call, such as 10.0.0.0/8; for an intranet."),
    ] = ()
    webpush_contact: Annotated[_Contact, _doc("mailto: or https: URL for push services; empty: no Web Push.")] = ""
    webpush_hosts: Annotated[
        tuple[str, ...],
        _doc("Hosts of push services that browsers may register, over https; HOST:PORT for another port."),
    ] = _PUSH_HOSTS
    apns_key_file: Annotated[str, _doc("The .p8 file of a key for Apple's push service; empty: no APNs.")] = ""
    apns_key_id: Annotated[str, _doc("The id of that key, as Apple shows it.")] = ""
    apns_team_id: Annotated[str, _doc("The id of the team that it belongs to.")] = ""
    apns_topic: Annotated[str, _doc("The bundle id of the app.")] = ""
    fcm_account_file: Annotated[str, _doc("The JSON file of a service account for Firebase; empty: no FCM.")] = ""
    stream_heartbeat_s: Annotated[
        float, Meta(ge=1, le=300), _doc("Seconds without an event after which a stream sends a heartbeat.")
    ] = 15.0
    stream_buffer_bytes: Annotated[
        int,
        Meta(ge=1 << 14),
        _doc("Bytes that a reader of a stream may lag; beyond, the stream is cut, and its client resumes."),
    ] = 1 << 18
    stream_resume_events: Annotated[
        Positive, _doc("Events of the log that a stream may go back to resume; beyond, its client is told to reload.")
    ] = 50_000

    connection_idle_s: Annotated[
        float,
        Meta(ge=0.1, le=3_600),
        _doc(
            "Seconds that a connection may take to send a request's head, stay idle between requests, or read "
            "nothing of an answer; beyond, it is closed."
        ),
    ] = 30.0
    request_timeout_ms: Annotated[Positive, _doc("Longest a request may take; beyond: TIMEOUT.")] = 5_000
    drain_timeout_s: Annotated[Positive, _doc("Longest a stopping process may take to finish its writes.")] = 20
    hang_timeout_s: Annotated[Positive, _doc("Seconds that a process may hang before it is replaced.")] = 30
    body_bytes_max: Annotated[Positive, _doc("Largest request body; beyond: BODY_TOO_LARGE.")] = 1 << 20

    media_url: Annotated[
        str,
        Meta(pattern="^(s3://[^/]+.*)?$"),
        _doc("Where media files are: empty for the folder `media` in the data folder, or s3://bucket/prefix."),
    ] = ""
    media_base_url: Annotated[
        str,
        Meta(pattern=r"^((https?:/)?/[^?#\s]+)?$"),
        _doc("Prefix of media URLs, such as that of a CDN; empty: `/media`, a path of this server."),
    ] = ""
    media_image_bytes_max: Annotated[Positive, _doc("Largest image; beyond: BODY_TOO_LARGE.")] = 20 << 20
    media_video_bytes_max: Annotated[Positive, _doc("Largest video; beyond: BODY_TOO_LARGE.")] = 100 << 20
    media_pixels_max: Annotated[
        int,
        Meta(ge=1, le=150_000_000),
        _doc("Pixels of an image, all frames together, or of a video's frame; beyond: INVALID_CONTENT."),
    ] = 50_000_000
    media_side_max: Annotated[
        int, Meta(ge=16, le=16_000), _doc("Longest side of a stored image in pixels; larger ones are scaled down.")
    ] = 2_000
    media_threads: Annotated[int, Meta(ge=1, le=64), _doc("Uploads that an API process decodes at once.")] = 2
    uploads_max: Annotated[
        Positive, _doc("Concurrent uploads in an API process, at most half of them by one user; beyond: OVERLOADED.")
    ] = 8
    upload_timeout_ms: Annotated[Positive, _doc("Longest an upload may take; beyond: TIMEOUT.")] = 120_000

    backup_to: Annotated[
        str,
        Meta(pattern="^(s3://[^/]+.*|(?!.*://).*)$"),
        _doc(
            "Where `kith serve` keeps backups: a folder, best on another disk, or s3://bucket/prefix; empty: no "
            "backups."
        ),
    ] = ""
    backup_every_minutes: Annotated[Positive, _doc("Minutes between incremental backups.")] = 5
    backup_whole_every_hours: Annotated[Positive, _doc("Hours between backups of the whole store.")] = 24
    backup_keep_days: Annotated[Positive, _doc("Days back to any moment of which the store can be restored.")] = 30

    rate_user_read: Annotated[NotNegative, _doc("Reads a second of one user token; 0: no limit.")] = 200
    rate_user_write: Annotated[NotNegative, _doc("Writes a second of one user token; 0: no limit.")] = 20
    rate_server_read: Annotated[NotNegative, _doc("Reads a second of one server key; 0: no limit.")] = 0
    rate_server_write: Annotated[NotNegative, _doc("Writes a second of one server key; 0: no limit.")] = 0
    rate_feed_per_minute: Annotated[
        NotNegative, _doc("Feed loads, pages of `GET /stories` and `why`, a minute of one user by token; 0: no limit.")
    ] = 60
    rate_posts_per_hour: Annotated[
        NotNegative, _doc("New posts, stories and boards an hour of one user by token; 0: no limit.")
    ] = 10
    rate_engagement_per_minute: Annotated[
        NotNegative,
        _doc("Likes, shares, saves, pins, comments and invitations a minute of one user by token; 0: no limit."),
    ] = 100
    rate_media_per_hour: Annotated[NotNegative, _doc("Uploads an hour of one user by token; 0: no limit.")] = 50

    @property
    def api_processes(self) -> int:
        """Number of API processes on this machine: `workers`, or one per core."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.workers or min(_WORKERS_MAX, cores)

    @property
    def read_share(self) -> float:
        """Factor for the bounds of an API process's read caches: `read_memory_mb` as a share of READ_MEMORY_MB."""
        return self.read_memory_mb / READ_MEMORY_MB


SECRET = frozenset({"api_keys", "jwt_secret", "redis_password", "cassandra_password"})
"""Settings that are never shown or logged."""
PATHS = frozenset({"data", "timelines_folder", "checks_snapshots", "backup_to", "apns_key_file", "fcm_account_file"})
"""Settings that may name a folder or a file."""


def load(flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings in force. `flags`: by name; None for a flag that was not given on the command line.

    Errors: BadRequest, which names the source and the field of an invalid value.
    """
    sources = _by_source(flags)
    for source, values in sources.items():
        _check(source, values)
    return msgspec.convert(dict(ChainMap(*reversed(sources.values()))), Settings, strict=False)


def sources_of(flags: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The source of each setting that is set somewhere, by name; settings at their defaults are missing."""
    return {name: source for source, values in _by_source(flags).items() for name in values}


def _by_source(flags: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The values of each source, by name; the later source wins."""
    return {
        FILE: _from_file(Path(FILE)),
        f"the {PREFIX}* variables": _from_environment(os.environ),
        "the flags": {name: value for name, value in (flags or {}).items() if value is not None},
    }


def _check(source: str, values: Mapping[str, Any]) -> None:
    """Check each value of a source on its own, because no setting depends on another. Errors: BadRequest."""
    for name, value in values.items():
        if name not in Settings.__struct_fields__:
            if isinstance(value, dict):
                raise BadRequest(f"[{name}], of {source}: the file has no sections; write its settings without one")
            raise _unknown(f"{name}, of {source},", name)
        try:
            msgspec.convert({name: value}, Settings, strict=False)
        except msgspec.ValidationError as error:
            raise BadRequest(f"{name}, of {source}, {_refusal(name, value, str(error))}") from error
    settings = msgspec.convert(values, Settings, strict=False)
    if not settings.data:
        raise BadRequest(f"data, of {source}, is empty; name a folder")
    for name in PATHS & values.keys():
        if getattr(settings, name).startswith("~"):
            raise BadRequest(f"{name}, of {source}, begins with ~, which only a shell replaces; write the whole path")
    if not settings.host:
        raise BadRequest(f"host, of {source}, is empty; 0.0.0.0 stands for all addresses")
    try:
        networks_of(settings.outbound_networks)
    except BadRequest as error:
        raise BadRequest(f"outbound_networks, of {source}: {error.message}") from None
    if settings.jwt_secret and len(settings.jwt_secret) < _SECRET_CHARS_MIN:
        raise BadRequest(
            f"jwt_secret, of {source}, must have {_SECRET_CHARS_MIN} characters or more; a shorter one can be guessed"
        )
    if any(len(key) < _KEY_CHARS_MIN for key in settings.api_keys):
        raise BadRequest(
            f"a server key of {source} has fewer than {_KEY_CHARS_MIN} characters and can be guessed; "
            "`kith token --server` makes one that is kept, `openssl rand -hex 24` one to set as api_keys"
        )
    if not all(key.isascii() and key.isprintable() and " " not in key for key in settings.api_keys):
        raise BadRequest(f"a server key of {source} is not printable ASCII without spaces, so no client can send it")


def _refusal(name: str, value: object, error: str) -> str:
    """Why a value is refused, and which values are allowed. `error`: msgspec's error."""
    hint = get_type_hints(Settings)[name]
    shown = "(not shown)" if name in SECRET else _USER_OF_URL.sub("//...@", repr(value))
    if get_origin(hint) is Literal:
        return f"may be {' or '.join(map(str, get_args(hint)))}, not {shown}"
    if get_origin(hint) is tuple and isinstance(value, str):
        return f'is a list: {name} = ["...", "..."], or, as a variable, {PREFIX}{name.upper()}=...,...'
    if get_origin(hint) is tuple and get_origin(item := get_args(hint)[0]) is Literal:
        return f"holds {', '.join(map(str, get_args(item)))}, not {shown}"
    meaning = _meaning(get_type_hints(Settings, include_extras=True)[name])
    why = "" if "regex" in error else f" ({error.partition(' - at ')[0]})"
    return f"cannot be {shown}{why}. It is: {meaning}"


def _unknown(shown: str, name: str, prefix: str = "") -> BadRequest:
    """The error for a name that is no setting, with the most similar setting. `prefix`: of variables."""
    likely = difflib.get_close_matches(name.lower(), Settings.__struct_fields__, 1, _SIMILARITY_MIN)
    suggestions = [prefix + (setting.upper() if prefix else setting) + " is; " for setting in likely]
    return BadRequest(f"{shown} is no setting; {''.join(suggestions)}`kith settings` lists them")


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))  # some editors begin a file with a byte order mark
    except FileNotFoundError:
        return {}
    except ValueError as error:  # not TOML, or not UTF-8
        raise BadRequest(f"{path} is not valid TOML: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings from variables such as `KITH_PORT=7401`; lists are JSON, or names separated by commas.

    A variable with the prefix that is neither a setting nor one of `_NOT_A_SETTING` is refused.
    """
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    values: dict[str, Any] = {}
    for key, text in environment.items():
        name = key.removeprefix(PREFIX).lower()
        if not key.startswith(PREFIX):
            continue
        if name in defaults:
            values[name] = _list(key, text) if isinstance(defaults[name], tuple) else text
        elif not _NOT_A_SETTING.fullmatch(name):
            raise _unknown(key, name, PREFIX)
    return values


def _list(key: str, text: str) -> list[Any]:
    if not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return list(json.loads(text))
    except ValueError:
        raise BadRequest(f"{key} is neither a JSON list nor names separated by commas") from None


class SettingRow(msgspec.Struct, frozen=True):
    """One line of `kith settings`."""

    name: str
    value: str
    default: str
    meaning: str


def table(settings: Settings) -> list[SettingRow]:
    """Every setting with its value, default and meaning; secrets are not shown."""
    hints = get_type_hints(Settings, include_extras=True)
    rows = []
    for field in msgspec.structs.fields(Settings):
        value, meaning = getattr(settings, field.name), _meaning(hints[field.name])
        shown = ("(set)" if value else "(not set)") if field.name in SECRET else _show(value)
        rows.append(SettingRow(field.name, shown, _show(field.default), meaning))
    return rows


def _meaning(hint: Any) -> str:
    return str(next(note.description for note in hint.__metadata__ if note.description))


def _show(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
