-- Ledgers, their facts and their contents. Every key begins with the tenant, and so does every WHERE.

CREATE TABLE legato.ledgers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C",                 -- NULL once deleted, while forks still share its facts
    parent bigint,                         -- whose facts come before `shared`
    shared integer NOT NULL DEFAULT 0,
    origin bigint,                         -- the ledger it was forked from, as the caller named it
    length integer NOT NULL DEFAULT 0,     -- 0: leased, and not made yet
    rested integer NOT NULL DEFAULT 0,     -- how many facts the last driver had seen when it came to rest
    epoch bigint NOT NULL DEFAULT 0,       -- of the newest lease
    until timestamptz,                     -- when that lease ends, by the server's clock; NULL: it was given back
    updated bigint NOT NULL DEFAULT 0,     -- `at` of the last fact
    touched bigint NOT NULL DEFAULT 0,     -- when it was recorded: the order of list()
    born text COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (tenant, name)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05); -- every append makes a new version of a row

CREATE INDEX ledgers_parent ON legato.ledgers (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX ledgers_recent ON legato.ledgers (tenant, touched) WHERE name IS NOT NULL AND length > 0;
CREATE INDEX ledgers_unrested ON legato.ledgers (tenant, touched) WHERE name IS NOT NULL AND length > rested;

CREATE TABLE legato.facts (
    tenant text COLLATE "C" NOT NULL,
    ledger bigint NOT NULL,
    "position" integer NOT NULL,
    format smallint NOT NULL,
    crc integer NOT NULL,
    body bytea NOT NULL,                   -- JSON: SELECT convert_from(body, 'UTF8') shows it
    PRIMARY KEY (tenant, ledger, "position")
);

CREATE TABLE legato.contents (
    tenant text COLLATE "C" NOT NULL,
    ledger bigint NOT NULL,
    digest text COLLATE "C" NOT NULL,
    "position" integer NOT NULL,
    crc integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, ledger, digest)
);

-- One sequence for the epochs of all ledgers: each lease has a larger one than every lease before it, of whatever ledger, deleted or forked.
CREATE SEQUENCE legato.epochs;
CREATE SEQUENCE legato.touches;
