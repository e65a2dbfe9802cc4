-- What takes more than one statement, so that it is one round trip. Each function is one transaction of its caller's; what it refuses it tells
-- as an outcome, and has written nothing then.

CREATE FUNCTION legato.record(
    of_tenant text, of_ledger bigint, at_position integer, in_format smallint, bodies bytea[], crcs integer[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO legato.facts (tenant, ledger, "position", format, crc, body)
    SELECT of_tenant, of_ledger, at_position + new.number::integer - 1, in_format, new.crc, new.body
    FROM unnest(bodies, crcs) WITH ORDINALITY AS new (body, crc, number)
$$;

-- What this ledger, or a parent before the fork, recorded under the digest.
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

-- outcome: 'ok', 'conflict' (reached: the length found), 'unknown', 'another'
CREATE FUNCTION legato.append(
    of_tenant text, of_name text, expected integer, by_born text, last_at bigint, in_format smallint, bodies bytea[], crcs integer[],
    digests text[], kept bytea[], kept_crcs integer[], OUT outcome text, OUT reached integer
) LANGUAGE plpgsql AS $$
DECLARE
    added integer := cardinality(bodies);
    it bigint;
    of_parent bigint;
    there record;
BEGIN
    LOOP
        -- The usual case is one update, which waits for whoever else writes to this ledger and then looks at what they left.
        UPDATE legato.ledgers l SET
            length = expected + added,
            updated = CASE WHEN added > 0 THEN last_at ELSE l.updated END,
            touched = CASE WHEN added > 0 THEN nextval('legato.touches') ELSE l.touched END,
            born = CASE WHEN expected = 0 AND added > 0 THEN by_born ELSE l.born END
        WHERE l.tenant = of_tenant AND l.name = of_name AND l.length = expected AND (expected = 0 OR by_born = '' OR l.born = by_born)
        RETURNING l.id, l.parent INTO it, of_parent;
        EXIT WHEN FOUND;
        SELECT l.length, l.born INTO there FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name;
        IF FOUND AND there.length = expected AND (expected = 0 OR by_born = '' OR there.born = by_born) THEN
            CONTINUE; -- it came to be so in between
        END IF;
        reached := coalesce(there.length, 0);
        IF expected > 0 AND by_born <> '' AND (reached = 0 OR there.born <> by_born) THEN
            outcome := CASE WHEN reached = 0 THEN 'unknown' ELSE 'another' END;
            RETURN;
        ELSIF reached <> expected THEN
            outcome := 'conflict';
            RETURN;
        END IF;
        INSERT INTO legato.ledgers (tenant, name, length, updated, touched, born)
            VALUES (of_tenant, of_name, added, last_at, nextval('legato.touches'), CASE WHEN added > 0 THEN by_born ELSE '' END)
            ON CONFLICT (tenant, name) DO NOTHING RETURNING id INTO it;
        EXIT WHEN FOUND;
    END LOOP;
    IF added > 0 THEN
        PERFORM legato.record(of_tenant, it, expected, in_format, bodies, crcs);
    END IF;
    FOR number IN 1 .. cardinality(digests) LOOP
        IF of_parent IS NULL OR NOT EXISTS (SELECT FROM legato.content_of(of_tenant, it, digests[number])) THEN
            INSERT INTO legato.contents (tenant, ledger, digest, "position", crc, body)
                VALUES (of_tenant, it, digests[number], expected, kept_crcs[number], kept[number])
                ON CONFLICT (tenant, ledger, digest) DO NOTHING;
        END IF;
    END LOOP;
    outcome := 'ok';
    reached := expected + added;
END
$$;

-- First a row with the ledger's length and birth name and no fact, then a row for each fact from the start on: all as of one moment,
-- because a function that is STABLE sees what its caller's statement sees. Nothing if there is no such ledger.
CREATE FUNCTION legato.read(of_tenant text, of_name text, start integer)
RETURNS TABLE (whole integer, birth text, at_position integer, format smallint, crc integer, body bytea)
LANGUAGE plpgsql STABLE ROWS 100 AS $$
DECLARE
    it record;
    ledgers bigint[] := '{}';
    firsts integer[] := '{}';
    ends integer[] := '{}';
    beyond integer := 2147483647; -- of its own facts all are asked for, so that more of them than its length says is noticed
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

-- outcome: 'ok', 'unknown', 'another', 'exists', 'beyond' (reached: the length found)
CREATE FUNCTION legato.fork(
    of_tenant text, of_name text, at_position integer, new_name text, by_born text, of_born text, last_at bigint, in_format smallint,
    bodies bytea[], crcs integer[], OUT outcome text, OUT reached integer
) LANGUAGE plpgsql AS $$
DECLARE
    source legato.ledgers;
    sharing legato.ledgers;
    branch legato.ledgers;
BEGIN
    SELECT * INTO source FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name FOR UPDATE;
    reached := coalesce(source.length, 0);
    IF reached = 0 THEN
        outcome := 'unknown';
        RETURN;
    ELSIF of_born <> '' AND source.born <> of_born THEN
        outcome := 'another';
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
        INSERT INTO legato.ledgers (tenant, name) VALUES (of_tenant, new_name)
            ON CONFLICT (tenant, name) DO NOTHING RETURNING * INTO branch;
        EXIT WHEN branch.id IS NOT NULL;
    END LOOP;
    -- A parent that contributes nothing is skipped, so a chain of forks never has more links than facts. Each is locked on the way, so that
    -- nobody who deletes a ledger drops meanwhile what this one is about to share.
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
        born = by_born
    WHERE l.tenant = of_tenant AND l.id = branch.id;
    PERFORM legato.record(of_tenant, branch.id, at_position, in_format, bodies, crcs);
    outcome := 'ok';
END
$$;

-- Removes the ledger, and what no ledger with a name can see any more, from it upwards. False if there was none.
CREATE FUNCTION legato.remove(of_tenant text, of_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    it legato.ledgers;
    still_shared integer;
BEGIN
    SELECT * INTO it FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
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
    RETURN true;
END
$$;

-- Whether a lease that was given until then is over. The clock is the server's, and so the same for everybody. While a server is down nobody
-- can renew a lease; so when it has started again, its holders have the time of one to come back.
CREATE FUNCTION legato.is_free(until timestamptz, seconds double precision) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT until IS NULL OR greatest(until, pg_postmaster_start_time() + make_interval(secs => seconds)) <= clock_timestamp()
$$;

-- The epoch of the lease that is given, or NULL while another one is held.
CREATE FUNCTION legato.lease(of_tenant text, of_name text, seconds double precision) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    given bigint;
BEGIN
    LOOP
        UPDATE legato.ledgers l SET epoch = nextval('legato.epochs'), until = clock_timestamp() + make_interval(secs => seconds)
            WHERE l.tenant = of_tenant AND l.name = of_name AND legato.is_free(l.until, seconds)
            RETURNING l.epoch INTO given;
        EXIT WHEN FOUND;
        PERFORM FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name;
        EXIT WHEN FOUND;
        INSERT INTO legato.ledgers (tenant, name, epoch, until)
            VALUES (of_tenant, of_name, nextval('legato.epochs'), clock_timestamp() + make_interval(secs => seconds))
            ON CONFLICT (tenant, name) DO NOTHING RETURNING epoch INTO given;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN given;
END
$$;

-- The epochs of the leases that live on. A row that somebody is just writing to is left out, so that the others need not wait for it: that
-- one is to be asked for alone, with `patient`. Then a lease that is not among the answers is lost.
CREATE FUNCTION legato.renew(tenants text[], names text[], epochs bigint[], seconds double precision, patient boolean)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- what is lost with the server is renewed again
    IF patient THEN
        RETURN QUERY UPDATE legato.ledgers l SET until = clock_timestamp() + make_interval(secs => seconds)
            FROM unnest(tenants, names, epochs) AS held (tenant, name, epoch)
            WHERE l.tenant = held.tenant AND l.name = held.name AND l.epoch = held.epoch AND l.until IS NOT NULL RETURNING l.epoch;
    ELSE
        RETURN QUERY UPDATE legato.ledgers l SET until = clock_timestamp() + make_interval(secs => seconds)
            FROM (
                SELECT mine.tenant, mine.id FROM legato.ledgers mine
                JOIN unnest(tenants, names, epochs) AS held (tenant, name, epoch)
                    ON mine.tenant = held.tenant AND mine.name = held.name AND mine.epoch = held.epoch
                WHERE mine.until IS NOT NULL FOR NO KEY UPDATE OF mine SKIP LOCKED
            ) AS free WHERE l.tenant = free.tenant AND l.id = free.id RETURNING l.epoch;
    END IF;
END
$$;

-- Gives leases back that are still theirs; `rested` is NULL where a driver did not come to rest.
CREATE FUNCTION legato.release(tenants text[], names text[], epochs bigint[], rests integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- if it is lost with the server, the lease ends with its time
    UPDATE legato.ledgers l SET until = NULL, rested = coalesce(given.rested, l.rested)
    FROM unnest(tenants, names, epochs, rests) AS given (tenant, name, epoch, rested)
    WHERE l.tenant = given.tenant AND l.name = given.name AND l.epoch = given.epoch;
END
$$;
