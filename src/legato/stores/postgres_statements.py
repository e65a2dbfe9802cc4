"""Every statement that a Postgres store executes. May know: SQL. Decides: nothing. What takes several is in `postgres_sql/`.

All of it is constant: values are given beside the statement and never become part of it. The tenant is always among them.
"""

from __future__ import annotations

from typing import Final

CONFIGURE: Final = (
    "SELECT set_config('lock_timeout', %s, false), set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('synchronous_commit', CASE WHEN %s AND current_setting('synchronous_commit') = 'off' THEN 'on'"
    " ELSE current_setting('synchronous_commit') END, false)"
)
PATIENCE: Final = "SELECT set_config('lock_timeout', %s, false)"
APPEND: Final = (
    "SELECT outcome, reached FROM legato.append(%s::text, %s::text, %s::integer, %s::text, %s::bigint, %s::smallint,"
    " %s::bytea[], %s::integer[], %s::text[], %s::bytea[], %s::integer[], %s::bigint)"
)
READ: Final = "SELECT whole, birth, at_position, format, crc, body FROM legato.read(%s::text, %s::text, %s::integer)"
BORN: Final = "SELECT born, length FROM legato.ledgers WHERE tenant = %s::text AND name = %s::text AND length > 0"
CONTENT: Final = (
    "SELECT l.length, c.at_position, c.crc, c.body FROM legato.ledgers l"
    " LEFT JOIN LATERAL legato.content_of(l.tenant, l.id, %s::text) c ON true WHERE l.tenant = %s::text AND l.name = %s::text"
)
FORK: Final = (
    "SELECT outcome, reached FROM legato.fork(%s::text, %s::text, %s::integer, %s::text, %s::text, %s::text, %s::bigint, %s::smallint,"
    " %s::bytea[], %s::integer[], %s::text[], %s::bytea[], %s::integer[], %s::integer, %s::bigint)"
)
REMOVE: Final = (
    "SELECT outcome, found_name, wanted, reached FROM legato.remove_family(%s::text, %s::text, %s::text[], %s::integer[], %s::text)"
)
_LINE: Final = "SELECT l.name, l.length, l.updated, coalesce(o.name, ''), l.touched"
_ORIGIN: Final = "LEFT JOIN legato.ledgers o ON o.tenant = l.tenant AND o.id = l.origin"
CHILDREN: Final = f"{_LINE} FROM legato.children(%s::text, %s::text) l {_ORIGIN} ORDER BY l.name"
FAMILY: Final = (
    "SELECT f.id, f.name, f.parent, f.shared, f.length, l.id, l.born FROM legato.ledgers l"
    " CROSS JOIN LATERAL legato.family(l.tenant, l.id) f WHERE l.tenant = %s::text AND l.name = %s::text AND l.length > 0 ORDER BY f.id"
)
REDACT: Final = (
    "SELECT legato.redact(%s::text, %s::bigint, %s::bigint[], %s::text[], %s::integer[], %s::smallint,"
    " %s::bigint[], %s::integer[], %s::integer[], %s::bytea[], %s::bigint[], %s::integer[], %s::bytea[], %s::bigint,"
    " %s::text[], %s::bigint[], %s::text[], %s::integer[], %s::integer[], %s::bytea[])"
)
RECENT: Final = (
    f"{_LINE} FROM legato.ledgers l {_ORIGIN}"
    " WHERE l.tenant = %s::text AND l.name IS NOT NULL AND l.length > 0 AND l.touched < %s::bigint"
    " ORDER BY l.touched DESC LIMIT %s::bigint"
)
UNRESTED: Final = (
    f"{_LINE} FROM legato.ledgers l {_ORIGIN}"
    " WHERE l.tenant = %s::text AND l.name IS NOT NULL AND l.length > l.rested AND l.touched > %s::bigint"
    " AND (legato.is_over(l.until, coalesce(l.lasts, 0), pg_postmaster_start_time(), clock_timestamp())"
    " OR legato.is_of_the_future(l.until, coalesce(l.lasts, 0), clock_timestamp())) ORDER BY l.touched LIMIT %s::bigint"
)
LEASE: Final = "SELECT outcome, given, number FROM legato.lease(%s::text, %s::text, %s::double precision)"
RENEW: Final = "SELECT legato.renew(%s::text[], %s::bigint[], %s::bigint[], %s::double precision, %s::boolean)"
RELEASE: Final = "SELECT legato.release(%s::text[], %s::bigint[], %s::bigint[], %s::integer[])"

LISTEN: Final = "LISTEN legato"
UNLISTEN: Final = "UNLISTEN legato"
NOTIFY: Final = "SELECT pg_notify('legato', news) FROM unnest(%s::text[]) AS news"
NEWS, NOTES = "legato", "legato_notes"
HEAR: Final = "LISTEN legato_notes"
IGNORE: Final = "UNLISTEN legato_notes"
TELL: Final = (  # nobody waits for the disk: of what a crash of the server undoes, nobody has any use
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, told)"
    " FROM unnest(%s::text[], %s::text[]) AS outgoing (channel, told)"
)
LENGTHS: Final = (
    "SELECT asked.key, l.length FROM unnest(%s::text[], %s::text[], %s::text[]) AS asked (tenant, name, key)"
    " JOIN legato.ledgers l ON l.tenant = asked.tenant AND l.name = asked.name"
)
NAMES: Final = "SELECT name FROM legato.ledgers WHERE tenant = %s::text AND name IS NOT NULL AND length > 0 ORDER BY id"
CONTENTS: Final = 'SELECT ledger, "position", crc, body FROM legato.contents WHERE tenant = %s::text ORDER BY ledger, digest'

APPLIED: Final = "SELECT number, name FROM legato.migrations"
ALONE: Final = "SELECT pg_advisory_xact_lock(5498133208417362244)"
SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS legato",
    "CREATE TABLE IF NOT EXISTS legato.migrations"
    " (number integer PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now())",
)
MIGRATED: Final = "INSERT INTO legato.migrations (number, name) VALUES (%s, %s)"
