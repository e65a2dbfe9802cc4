-- The schema of a database. A released file of this folder never changes: a later version adds a file with the next number.

-- Ledgers, their facts and their contents. Every key begins with the tenant, and so does every WHERE.

CREATE TABLE legato.ledgers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C",                 -- NULL once deleted, while forks still share its facts
    parent bigint,                         -- the ledger that has the facts before `shared`
    shared integer NOT NULL DEFAULT 0,
    origin bigint,                         -- the ledger that it was forked from
    length integer NOT NULL DEFAULT 0,     -- 0: leased, and not created yet
    rested integer NOT NULL DEFAULT 0,     -- the length at which the session last became idle
    epoch bigint NOT NULL DEFAULT 0,       -- the epoch of the newest lease
    named bigint NOT NULL DEFAULT 0,       -- the newest epoch that the facts name: facts may come from other stores
    until timestamptz,                     -- when the newest lease ends, by the server's clock; NULL: it was released
    lasts double precision,                -- the duration of that lease, in seconds
    updated bigint NOT NULL DEFAULT 0,     -- `at` of the last fact
    touched bigint NOT NULL DEFAULT 0,     -- the number of the last append: the order of list()
    born text COLLATE "C" NOT NULL DEFAULT '', -- the ledger's id
    UNIQUE (tenant, name)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05); -- every append writes a new version of a row

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

-- The newest epoch of each tenant's deleted ledgers: new ledgers begin above it.
CREATE TABLE legato.inherited_epochs (
    tenant text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL
);

CREATE SEQUENCE legato.touches;

-- Operations of several statements, each as one function, so that it takes one round trip. Each function is one transaction of its caller.
-- A refusal is returned as an outcome, and then nothing was written.

CREATE FUNCTION legato.record(
    of_tenant text, of_ledger bigint, at_position integer, in_format smallint, bodies bytea[], crcs integer[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO legato.facts (tenant, ledger, "position", format, crc, body)
    SELECT of_tenant, of_ledger, at_position + new.number::integer - 1, in_format, new.crc, new.body
    FROM unnest(bodies, crcs) WITH ORDINALITY AS new (body, crc, number)
$$;

-- Returns the content that this ledger, or a parent before the fork, recorded under the digest.
CREATE FUNCTION legato.content_of(of_tenant text, of_ledger bigint, of_digest text)
RETURNS TABLE (at_position integer, crc integer, body bytea) LANGUAGE plpgsql STABLE ROWS 1 AS $$
DECLARE
    it bigint := of_ledger;
    below integer := 2147483647;
BEGIN
    WHILE it IS NOT NULL LOOP
        RETURN QUERY SELECT c."position", c.crc, c.body FROM legato.contents c
            WHERE c.tenant = of_tenant AND c.ledger = it AND c.digest = of_digest AND c."position" < below;
        EXIT WHEN FOUND;
        SELECT l.parent, l.shared INTO it, below FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = it;
    END LOOP;
END
$$;

-- Inserts the contents of facts from a position on, unless the ledger has them.
CREATE FUNCTION legato.keep(
    of_tenant text, of_ledger bigint, of_parent bigint, at_position integer, digests text[], kept bytea[], kept_crcs integer[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN 1 .. cardinality(digests) LOOP
        IF of_parent IS NULL OR NOT EXISTS (SELECT FROM legato.content_of(of_tenant, of_ledger, digests[number])) THEN
            INSERT INTO legato.contents (tenant, ledger, digest, "position", crc, body)
                VALUES (of_tenant, of_ledger, digests[number], at_position, kept_crcs[number], kept[number])
                ON CONFLICT (tenant, ledger, digest) DO NOTHING;
        END IF;
    END LOOP;
END
$$;

-- Returns the epoch above which the epochs of a new ledger begin.
CREATE FUNCTION legato.inherited_epoch(of_tenant text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT i.epoch FROM legato.inherited_epochs i WHERE i.tenant = of_tenant), 0)
$$;

-- Appends facts. `by_born`: the ledger's id. `newest`: the newest epoch that these facts name; it does not end the present lease.
-- outcome: 'ok', 'conflict' (reached: the length found), 'unknown', 'another' (a ledger with another id)
CREATE FUNCTION legato.append(
    of_tenant text, of_name text, expected integer, by_born text, last_at bigint, in_format smallint, bodies bytea[], crcs integer[],
    digests text[], kept bytea[], kept_crcs integer[], newest bigint, OUT outcome text, OUT reached integer
) LANGUAGE plpgsql AS $$
DECLARE
    added integer := cardinality(bodies);
    it bigint;
    of_parent bigint;
    there record;
BEGIN
    LOOP
        -- The usual case is one update. It waits for concurrent writes to this ledger, and then sees their result.
        UPDATE legato.ledgers l SET
            length = expected + added,
            updated = CASE WHEN added > 0 THEN last_at ELSE l.updated END,
            touched = CASE WHEN added > 0 THEN nextval('legato.touches') ELSE l.touched END,
            born = CASE WHEN expected = 0 AND added > 0 THEN by_born ELSE l.born END,
            named = greatest(l.named, newest)
        WHERE l.tenant = of_tenant AND l.name = of_name AND l.length = expected AND (expected = 0 OR by_born = '' OR l.born = by_born)
        RETURNING l.id, l.parent INTO it, of_parent;
        EXIT WHEN FOUND;
        SELECT l.length, l.born INTO there FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name;
        IF FOUND AND there.length = expected AND (expected = 0 OR by_born = '' OR there.born = by_born) THEN
            CONTINUE; -- the row changed in between
        END IF;
        reached := coalesce(there.length, 0);
        IF expected > 0 AND by_born <> '' AND (reached = 0 OR there.born <> by_born) THEN
            outcome := CASE WHEN reached = 0 THEN 'unknown' ELSE 'another' END;
            RETURN;
        ELSIF reached <> expected THEN
            outcome := 'conflict';
            RETURN;
        END IF;
        INSERT INTO legato.ledgers (tenant, name, length, updated, touched, born, named)
            VALUES (of_tenant, of_name, added, last_at, nextval('legato.touches'), CASE WHEN added > 0 THEN by_born ELSE '' END,
                greatest(newest, legato.inherited_epoch(of_tenant)))
            ON CONFLICT (tenant, name) DO NOTHING RETURNING id INTO it;
        EXIT WHEN FOUND;
    END LOOP;
    IF added > 0 THEN
        PERFORM legato.record(of_tenant, it, expected, in_format, bodies, crcs);
    END IF;
    PERFORM legato.keep(of_tenant, it, of_parent, expected, digests, kept, kept_crcs);
    outcome := 'ok';
    reached := expected + added;
END
$$;

-- Returns a row with the ledger's length and id and no fact, then a row for each fact from the start on, all as of one moment: a STABLE
-- function sees the snapshot of its caller's statement. Returns nothing if there is no such ledger.
CREATE FUNCTION legato.read(of_tenant text, of_name text, start integer)
RETURNS TABLE (whole integer, birth text, at_position integer, format smallint, crc integer, body bytea)
LANGUAGE plpgsql STABLE ROWS 100 AS $$
DECLARE
    it record;
    ledgers bigint[] := '{}';
    firsts integer[] := '{}';
    ends integer[] := '{}';
    beyond integer := 2147483647; -- the ledger's own facts are read without an end, so that facts beyond its length are noticed
BEGIN
    SELECT l.id, l.parent, l.shared, l.length, l.born INTO it
        FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT it.length, it.born, NULL::integer, NULL::smallint, NULL::integer, NULL::bytea;
    IF it.length <= start THEN
        RETURN;
    END IF;
    LOOP
        ledgers := it.id || ledgers;
        firsts := greatest(it.shared, start) || firsts;
        ends := beyond || ends;
        EXIT WHEN it.parent IS NULL OR it.shared <= start;
        beyond := it.shared;
        SELECT l.id, l.parent, l.shared, l.length, l.born INTO it FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = it.parent;
        EXIT WHEN NOT FOUND;
    END LOOP;
    FOR number IN 1 .. cardinality(ledgers) LOOP
        RETURN QUERY SELECT NULL::integer, NULL::text, f."position", f.format, f.crc, f.body FROM legato.facts f
            WHERE f.tenant = of_tenant AND f.ledger = ledgers[number]
                AND f."position" >= firsts[number] AND f."position" < ends[number]
            ORDER BY f."position";
    END LOOP;
END
$$;

-- Forks a ledger. outcome: 'ok', 'unknown', 'another', 'conflict' and 'beyond' (reached: the length found), 'exists'.
CREATE FUNCTION legato.fork(
    of_tenant text, of_name text, at_position integer, new_name text, by_born text, of_born text, last_at bigint, in_format smallint,
    bodies bytea[], crcs integer[], digests text[], kept bytea[], kept_crcs integer[], expected integer, newest bigint,
    OUT outcome text, OUT reached integer
) LANGUAGE plpgsql AS $$
DECLARE
    source legato.ledgers;
    sharing legato.ledgers;
    branch legato.ledgers;
BEGIN
    -- The row stays locked until the end, so the fork is made of what is read here. A fork's epochs begin above its parent's.
    SELECT * INTO source FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name FOR UPDATE;
    reached := coalesce(source.length, 0);
    IF reached = 0 THEN
        outcome := 'unknown';
        RETURN;
    ELSIF of_born <> '' AND source.born <> of_born THEN
        outcome := 'another';
        RETURN;
    ELSIF reached <> expected THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    LOOP
        SELECT * INTO branch FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = new_name FOR UPDATE;
        IF branch.length > 0 THEN
            outcome := 'exists';
            RETURN;
        ELSIF at_position < 0 OR at_position > reached THEN
            outcome := 'beyond';
            RETURN;
        END IF;
        EXIT WHEN branch.id IS NOT NULL;
        INSERT INTO legato.ledgers (tenant, name, named) VALUES (of_tenant, new_name, legato.inherited_epoch(of_tenant))
            ON CONFLICT (tenant, name) DO NOTHING RETURNING * INTO branch;
        EXIT WHEN branch.id IS NOT NULL;
    END LOOP;
    -- A parent that contributes no facts is skipped, so a chain of forks never has more links than facts. Each is locked on the way, so that
    -- a concurrent deletion cannot drop the facts that this fork is about to share.
    sharing := source;
    WHILE sharing.parent IS NOT NULL AND at_position <= sharing.shared LOOP
        SELECT * INTO sharing FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = sharing.parent FOR UPDATE;
    END LOOP;
    reached := at_position + cardinality(bodies);
    UPDATE legato.ledgers l SET
        parent = CASE WHEN at_position > 0 THEN sharing.id END,
        shared = at_position,
        origin = source.id,
        length = reached,
        rested = 0,
        updated = last_at,
        touched = nextval('legato.touches'),
        born = by_born,
        named = greatest(l.named, source.epoch, source.named, newest)
    WHERE l.tenant = of_tenant AND l.id = branch.id;
    PERFORM legato.record(of_tenant, branch.id, at_position, in_format, bodies, crcs);
    PERFORM legato.keep(of_tenant, branch.id, CASE WHEN at_position > 0 THEN sharing.id END, at_position, digests, kept, kept_crcs);
    outcome := 'ok';
END
$$;

-- Returns a session's child sessions: their names are one range (core/child_session_ids.py).
CREATE FUNCTION legato.children(of_tenant text, of_name text) RETURNS SETOF legato.ledgers LANGUAGE sql STABLE AS $$
    SELECT * FROM legato.ledgers l
        WHERE l.tenant = of_tenant AND l.name >= of_name || '/' AND l.name < of_name || '0' AND l.length > 0
            AND substr(l.name, length(of_name) + 1) ~ '^(/[0-9a-f]{32}:[0-9]+[.][0-9]+)+$'
$$;

-- Removes the ledger, and from it upwards all facts that no named ledger can see any more.
CREATE FUNCTION legato.remove(of_tenant text, of_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    it legato.ledgers;
    still_shared integer;
BEGIN
    SELECT * INTO it FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF greatest(it.epoch, it.named) <= 1099511627776 THEN -- MAX_INHERITED_EPOCH in stores/contract.py
        INSERT INTO legato.inherited_epochs AS i VALUES (of_tenant, greatest(it.epoch, it.named))
            ON CONFLICT (tenant) DO UPDATE SET epoch = excluded.epoch WHERE i.epoch < excluded.epoch;
    END IF;
    UPDATE legato.ledgers l SET name = NULL, until = NULL WHERE l.tenant = of_tenant AND l.id = it.id;
    LOOP
        SELECT max(l.shared) INTO still_shared FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.parent = it.id;
        DELETE FROM legato.facts f
            WHERE f.tenant = of_tenant AND f.ledger = it.id AND f."position" >= coalesce(still_shared, 0);
        DELETE FROM legato.contents c
            WHERE c.tenant = of_tenant AND c.ledger = it.id AND c."position" >= coalesce(still_shared, 0);
        EXIT WHEN still_shared IS NOT NULL;
        DELETE FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = it.id;
        EXIT WHEN it.parent IS NULL;
        SELECT * INTO it FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = it.parent FOR UPDATE;
        EXIT WHEN NOT FOUND OR it.name IS NOT NULL;
    END LOOP;
END
$$;

-- Removes a ledger and its children if their names and lengths are the expected ones. outcome: 'ok', 'none' (there was none), 'conflict'
-- (found_name and reached: the ledger that differs, and its length), 'unknown', 'another'
CREATE FUNCTION legato.remove_family(
    of_tenant text, of_name text, names text[], lengths integer[], of_born text,
    OUT outcome text, OUT found_name text, OUT wanted integer, OUT reached integer
) LANGUAGE plpgsql AS $$
DECLARE
    it legato.ledgers;
    child text;
BEGIN
    SELECT * INTO it FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0 FOR UPDATE;
    IF it.id IS NULL THEN
        outcome := CASE WHEN of_born = '' THEN 'none' ELSE 'unknown' END;
        RETURN;
    ELSIF of_born <> '' AND it.born <> of_born THEN
        outcome := 'another';
        RETURN;
    END IF;
    PERFORM FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id IN (SELECT c.id FROM legato.children(of_tenant, of_name) c)
        ORDER BY l.id FOR UPDATE;
    IF names IS NOT NULL THEN
        SELECT coalesce(e.name, f.name), coalesce(e.length, 0), coalesce(f.length, 0) INTO found_name, wanted, reached
            FROM unnest(names, lengths) AS e (name, length)
            FULL JOIN (SELECT it.name, it.length UNION ALL SELECT c.name, c.length FROM legato.children(of_tenant, of_name) c) AS f (name, length)
                ON e.name = f.name
            WHERE e.length IS DISTINCT FROM f.length ORDER BY 1 LIMIT 1;
        IF found_name IS NOT NULL THEN
            outcome := 'conflict';
            RETURN;
        END IF;
    END IF;
    FOR child IN SELECT c.name FROM legato.children(of_tenant, of_name) c LOOP
        PERFORM legato.remove(of_tenant, child);
    END LOOP;
    PERFORM legato.remove(of_tenant, of_name);
    outcome := 'ok';
END
$$;

-- Leases.

-- Returns whether a lease until then, of so many seconds, has ended. The clock is the server's, so it is the same for all clients. No lease can
-- be renewed while the server is down; so after its start, holders have the duration of a lease to come back. A server that seems to have
-- started in the future had its clock set back since.
CREATE FUNCTION legato.is_over(until timestamptz, lasts double precision, started timestamptz, present timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT until IS NULL OR (
        until <= present AND (started > present OR started + make_interval(secs => lasts) <= present)
    )
$$;

-- Returns whether a lease ends later than it can: the clock was set back since it was taken or renewed.
CREATE FUNCTION legato.is_of_the_future(until timestamptz, lasts double precision, present timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT until IS NOT NULL AND until > present + make_interval(secs => lasts)
$$;

-- Leases a ledger. outcome: 'ok' (epoch, number), 'held', 'none left' (there is no larger epoch)
CREATE FUNCTION legato.lease(
    of_tenant text, of_name text, seconds double precision, OUT outcome text, OUT given bigint, OUT number bigint
) LANGUAGE plpgsql AS $$
DECLARE
    largest CONSTANT bigint := 9007199254740992; -- MAX_COUNT in core/facts.py
    known bigint;
BEGIN
    LOOP
        UPDATE legato.ledgers l
            SET epoch = greatest(l.epoch, l.named) + 1, until = clock_timestamp() + make_interval(secs => seconds), lasts = seconds
            WHERE l.tenant = of_tenant AND l.name = of_name AND greatest(l.epoch, l.named) < largest
                AND legato.is_over(l.until, coalesce(l.lasts, seconds), pg_postmaster_start_time(), clock_timestamp())
            RETURNING 'ok', l.epoch, l.id INTO outcome, given, number;
        EXIT WHEN FOUND;
        -- The holder may be alive, and then renews the lease soon. So it lasts as long as a lease that was just renewed.
        UPDATE legato.ledgers l SET until = clock_timestamp() + make_interval(secs => coalesce(l.lasts, seconds))
            WHERE l.tenant = of_tenant AND l.name = of_name
                AND legato.is_of_the_future(l.until, coalesce(l.lasts, seconds), clock_timestamp());
        SELECT greatest(l.epoch, l.named) INTO known FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name;
        IF FOUND THEN
            outcome := CASE WHEN known < largest THEN 'held' ELSE 'none left' END;
            RETURN;
        END IF;
        INSERT INTO legato.ledgers (tenant, name, epoch, until, lasts)
            VALUES (of_tenant, of_name, legato.inherited_epoch(of_tenant) + 1, clock_timestamp() + make_interval(secs => seconds), seconds)
            ON CONFLICT (tenant, name) DO NOTHING RETURNING 'ok', epoch, id INTO outcome, given, number;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Renews leases and returns the numbers of their ledgers. A row that is locked by a write is left out, so that the others need not wait for
-- it: it is renewed alone afterwards, with `patient`. A lease that is missing from that result is lost.
CREATE FUNCTION legato.renew(tenants text[], numbers bigint[], epochs bigint[], seconds double precision, patient boolean)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- a renewal that is lost in a crash of the server is repeated
    IF patient THEN
        RETURN QUERY UPDATE legato.ledgers l SET until = clock_timestamp() + make_interval(secs => seconds)
            FROM unnest(tenants, numbers, epochs) AS held (tenant, number, epoch)
            WHERE l.tenant = held.tenant AND l.id = held.number AND l.epoch = held.epoch AND l.until IS NOT NULL RETURNING l.id;
    ELSE
        RETURN QUERY UPDATE legato.ledgers l SET until = clock_timestamp() + make_interval(secs => seconds)
            FROM (
                SELECT mine.tenant, mine.id FROM legato.ledgers mine
                JOIN unnest(tenants, numbers, epochs) AS held (tenant, number, epoch)
                    ON mine.tenant = held.tenant AND mine.id = held.number AND mine.epoch = held.epoch
                WHERE mine.until IS NOT NULL FOR NO KEY UPDATE OF mine SKIP LOCKED
            ) AS free WHERE l.tenant = free.tenant AND l.id = free.id RETURNING l.id;
    END IF;
END
$$;

-- Releases leases that are still held; `rests` has NULL for a session that did not become idle.
CREATE FUNCTION legato.release(tenants text[], numbers bigint[], epochs bigint[], rests integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- if this is lost in a crash of the server, the lease expires
    UPDATE legato.ledgers l SET until = NULL, rested = coalesce(given.rested, l.rested)
    FROM unnest(tenants, numbers, epochs, rests) AS given (tenant, number, epoch, rested)
    WHERE l.tenant = given.tenant AND l.id = given.number AND l.epoch = given.epoch;
END
$$;

-- Redaction. It is planned by the client, from the rows that it read, and carried out here if nothing has changed since.

-- Returns all ledgers that are related to this one by forks, also those without a name.
CREATE FUNCTION legato.family(of_tenant text, of_ledger bigint)
RETURNS TABLE (id bigint, name text, parent bigint, shared integer, length integer) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE above (id, parent) AS (
        SELECT l.id, l.parent FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = of_ledger
        UNION SELECT l.id, l.parent FROM legato.ledgers l JOIN above a ON l.id = a.parent WHERE l.tenant = of_tenant
    ), kin (id) AS (
        SELECT a.id FROM above a WHERE a.parent IS NULL
        UNION SELECT l.id FROM legato.ledgers l JOIN kin k ON l.parent = k.id WHERE l.tenant = of_tenant
    )
    SELECT l.id, l.name, l.parent, l.shared, l.length FROM legato.ledgers l JOIN kin k ON l.id = k.id WHERE l.tenant = of_tenant ORDER BY l.id
$$;

-- Returns false, and writes nothing, if the ledgers are not as the client read them (`ids`, `names`, `lengths`): it must plan again.
CREATE FUNCTION legato.redact(
    of_tenant text, of_ledger bigint, ids bigint[], names text[], lengths integer[], in_format smallint,
    replaced_ids bigint[], replaced_positions integer[], replaced_crcs integer[], replaced_bodies bytea[],
    added_ids bigint[], added_crcs integer[], added_bodies bytea[], added_at bigint,
    dropped text[], content_ids bigint[], content_digests text[], content_positions integer[], content_crcs integer[], content_bodies bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    -- Every append, fork and deletion locks one of these rows, so from here on nothing changes.
    PERFORM FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.id = ANY (ids) ORDER BY l.id FOR UPDATE;
    IF (SELECT (array_agg(f.id ORDER BY f.id), array_agg(f.name ORDER BY f.id), array_agg(f.length ORDER BY f.id))
            FROM legato.family(of_tenant, of_ledger) f) IS DISTINCT FROM (ids, names, lengths) THEN
        RETURN false;
    END IF;
    UPDATE legato.facts f SET format = in_format, crc = new.crc, body = new.body
        FROM unnest(replaced_ids, replaced_positions, replaced_crcs, replaced_bodies) AS new (ledger, "position", crc, body)
        WHERE f.tenant = of_tenant AND f.ledger = new.ledger AND f."position" = new."position";
    INSERT INTO legato.facts (tenant, ledger, "position", format, crc, body)
        SELECT of_tenant, new.ledger, l.length, in_format, new.crc, new.body
        FROM unnest(added_ids, added_crcs, added_bodies) AS new (ledger, crc, body)
        JOIN legato.ledgers l ON l.tenant = of_tenant AND l.id = new.ledger;
    UPDATE legato.ledgers l SET length = l.length + 1, updated = added_at, touched = nextval('legato.touches')
        WHERE l.tenant = of_tenant AND l.id = ANY (added_ids);
    DELETE FROM legato.contents c WHERE c.tenant = of_tenant AND c.ledger = ANY (ids) AND c.digest = ANY (dropped);
    INSERT INTO legato.contents AS c (tenant, ledger, digest, "position", crc, body)
        SELECT of_tenant, new.ledger, new.digest, new."position", new.crc, new.body
        FROM unnest(content_ids, content_digests, content_positions, content_crcs, content_bodies)
            AS new (ledger, digest, "position", crc, body)
        ON CONFLICT (tenant, ledger, digest) DO UPDATE SET "position" = excluded."position", crc = excluded.crc
            WHERE c.tenant = of_tenant AND excluded."position" < c."position";
    RETURN true;
END
$$;

-- Permits for model requests (engines/model_permits.py): beside the ledgers, and shared by all tenants, because providers count them together.

CREATE TABLE legato.permits (
    seat text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL             -- the holder extends this while it is alive
);
CREATE INDEX permits_name ON legato.permits (name);

CREATE TABLE legato.permit_starts (
    name text COLLATE "C" PRIMARY KEY,
    next timestamptz NOT NULL              -- when the next request may begin
);

-- Takes a permit. wait is NULL if it was taken, so that the request begins now; else the seconds until one may be free, 0 if that is not known.
-- Waiting clients have no row, so a client that dies while it waits holds up no other.
-- A permit that ends later than it can was taken before the clock was set back.
CREATE FUNCTION legato.take_permit(
    of_name text, for_seat text, at_once integer, apart double precision, lasts double precision, OUT wait double precision
) LANGUAGE plpgsql AS $$
DECLARE
    due timestamptz;
    present timestamptz;
BEGIN
    -- The row is the lock: the statements after it see what its last holder wrote.
    INSERT INTO legato.permit_starts AS s (name, next) VALUES (of_name, clock_timestamp())
        ON CONFLICT (name) DO UPDATE SET next = s.next RETURNING s.next INTO due;
    present := clock_timestamp();
    DELETE FROM legato.permits p WHERE p.name = of_name
        AND (p.until < present OR p.until > present + make_interval(secs => lasts));
    wait := extract(epoch FROM due - present);
    IF wait > 0 AND wait <= apart THEN -- a later time was left by a clock that was set back since, or by another limit
        RETURN;
    END IF;
    wait := 0;
    IF at_once > 0 AND (SELECT count(*) FROM legato.permits p WHERE p.name = of_name) >= at_once THEN
        RETURN;
    END IF;
    INSERT INTO legato.permits (seat, name, until) VALUES (for_seat, of_name, present + make_interval(secs => lasts));
    UPDATE legato.permit_starts s SET next = present + make_interval(secs => apart) WHERE s.name = of_name;
    wait := NULL;
END
$$;
