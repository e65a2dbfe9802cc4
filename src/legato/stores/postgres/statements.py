"""The SQL statements of the Postgres store. Operations of several statements are functions in `sql/`.

All statements are constants: values are passed as parameters and never become part of the text. The tenant is always one of them.
"""

from __future__ import annotations

from typing import Final

CONFIGURE: Final = (
    "SELECT set_config('lock_timeout', %s, false), set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('synchronous_commit', CASE WHEN %s AND current_setting('synchronous_commit') = 'off' THEN 'on'"
    " ELSE current_setting('synchronous_commit') END, false)"
)
SET_LOCK_TIMEOUT: Final = "SELECT set_config('lock_timeout', %s, false)"
APPEND: Final = (
    "SELECT outcome, reached FROM legato.append(%s::text, %s::text, %s::integer, %s::text, %s::bigint, %s::smallint,"
    " %s::bytea[], %s::integer[], %s::text[], %s::bytea[], %s::integer[], %s::bigint)"
)
READ: Final = "SELECT whole, birth, at_position, format, crc, body FROM legato.read(%s::text, %s::text, %s::integer)"
READ_LEDGER_ID: Final = "SELECT born, length FROM legato.ledgers WHERE tenant = %s::text AND name = %s::text AND length > 0"
READ_CONTENT: Final = (
    "SELECT l.length, c.at_position, c.crc, c.body FROM legato.ledgers l"
    " LEFT JOIN LATERAL legato.content_of(l.tenant, l.id, %s::text) c ON true WHERE l.tenant = %s::text AND l.name = %s::text"
)
FORK: Final = (
    "SELECT outcome, reached FROM legato.fork(%s::text, %s::text, %s::integer, %s::text, %s::text, %s::text, %s::bigint, %s::smallint,"
    " %s::bytea[], %s::integer[], %s::text[], %s::bytea[], %s::integer[], %s::integer, %s::bigint)"
)
DELETE: Final = (
    "SELECT outcome, found_name, wanted, reached FROM legato.remove_family(%s::text, %s::text, %s::text[], %s::integer[], %s::text)"
)
_INFO_COLUMNS: Final = "SELECT l.name, l.length, l.updated, coalesce(o.name, ''), l.touched"
_JOIN_ORIGIN: Final = "LEFT JOIN legato.ledgers o ON o.tenant = l.tenant AND o.id = l.origin"
LIST_CHILDREN: Final = f"{_INFO_COLUMNS} FROM legato.children(%s::text, %s::text) l {_JOIN_ORIGIN} ORDER BY l.name"
READ_FORK_TREE: Final = (
    "SELECT f.id, f.name, f.parent, f.shared, f.length, l.id, l.born FROM legato.ledgers l"
    " CROSS JOIN LATERAL legato.family(l.tenant, l.id) f WHERE l.tenant = %s::text AND l.name = %s::text AND l.length > 0 ORDER BY f.id"
)
REDACT: Final = (
    "SELECT legato.redact(%s::text, %s::bigint, %s::bigint[], %s::text[], %s::integer[], %s::smallint,"
    " %s::bigint[], %s::integer[], %s::integer[], %s::bytea[], %s::bigint[], %s::integer[], %s::bytea[], %s::bigint,"
    " %s::text[], %s::bigint[], %s::text[], %s::integer[], %s::integer[], %s::bytea[])"
)
LIST_RECENT: Final = (
    f"{_INFO_COLUMNS} FROM legato.ledgers l {_JOIN_ORIGIN}"
    " WHERE l.tenant = %s::text AND l.name IS NOT NULL AND l.length > 0 AND l.touched < %s::bigint"
    " ORDER BY l.touched DESC LIMIT %s::bigint"
)
LIST_RUNNABLE: Final = (
    f"{_INFO_COLUMNS} FROM legato.ledgers l {_JOIN_ORIGIN}"
    " WHERE l.tenant = %s::text AND l.name IS NOT NULL AND l.length > l.rested AND l.touched > %s::bigint"
    " AND (legato.is_over(l.until, coalesce(l.lasts, 0), pg_postmaster_start_time(), clock_timestamp())"
    " OR legato.is_of_the_future(l.until, coalesce(l.lasts, 0), clock_timestamp())) ORDER BY l.touched LIMIT %s::bigint"
)
LEASE: Final = "SELECT outcome, given, number FROM legato.lease(%s::text, %s::text, %s::double precision)"
RENEW: Final = "SELECT legato.renew(%s::text[], %s::bigint[], %s::bigint[], %s::double precision, %s::boolean)"
RELEASE: Final = "SELECT legato.release(%s::text[], %s::bigint[], %s::bigint[], %s::integer[])"

LISTEN: Final = "LISTEN legato"
UNLISTEN: Final = "UNLISTEN legato"
NOTIFY_GROWTH: Final = "SELECT pg_notify('legato', payload) FROM unnest(%s::text[]) AS payload"
GROWTH_CHANNEL, DELTA_CHANNEL = "legato", "legato_notes"
LISTEN_TO_DELTAS: Final = "LISTEN legato_notes"
UNLISTEN_FROM_DELTAS: Final = "UNLISTEN legato_notes"
NOTIFY_DELTAS: Final = (  # without waiting for the disk: a delta that is lost in a crash of the server is of no use afterwards
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, payload)"
    " FROM unnest(%s::text[], %s::text[]) AS outgoing (channel, payload)"
)
READ_LENGTHS: Final = (
    "SELECT watched.key, l.length FROM unnest(%s::text[], %s::text[], %s::text[]) AS watched (tenant, name, key)"
    " JOIN legato.ledgers l ON l.tenant = watched.tenant AND l.name = watched.name"
)
LIST_NAMES: Final = "SELECT name FROM legato.ledgers WHERE tenant = %s::text AND name IS NOT NULL AND length > 0 ORDER BY id"
READ_CONTENTS: Final = 'SELECT ledger, "position", crc, body FROM legato.contents WHERE tenant = %s::text ORDER BY ledger, digest'

READ_MIGRATIONS: Final = "SELECT number, name FROM legato.migrations"
LOCK_MIGRATIONS: Final = "SELECT pg_advisory_xact_lock(5498133208417362244)"
CREATE_SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS legato",
    "CREATE TABLE IF NOT EXISTS legato.migrations"
    " (number integer PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now())",
)
RECORD_MIGRATION: Final = "INSERT INTO legato.migrations (number, name) VALUES (%s, %s)"
