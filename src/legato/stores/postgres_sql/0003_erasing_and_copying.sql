-- Erasing words. What becomes of each ledger is decided outside, from what was read; here it is carried out, if nothing has moved since.

-- All ledgers that have a fork in common with this one, those without a name too.
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

-- False, and nothing written: the family is not what it was, so somebody has to look again. `ids`, `names` and `lengths` are what it was.
CREATE FUNCTION legato.redact(
    of_tenant text, of_ledger bigint, ids bigint[], names text[], lengths integer[], in_format smallint,
    replaced_ids bigint[], replaced_positions integer[], replaced_crcs integer[], replaced_bodies bytea[],
    added_ids bigint[], added_crcs integer[], added_bodies bytea[], added_at bigint,
    dropped text[], content_ids bigint[], content_digests text[], content_positions integer[], content_crcs integer[], content_bodies bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    -- Whoever appends, forks or deletes takes a lock on one of these, so from here on nothing moves.
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

-- Removes a ledger if it is still the one that is meant. outcome: 'ok', 'none' (there was none), 'conflict' (reached: the length found), 'unknown',
-- 'another'
CREATE FUNCTION legato.remove_if(of_tenant text, of_name text, expected integer, of_born text, OUT outcome text, OUT reached integer)
LANGUAGE plpgsql AS $$
DECLARE
    it legato.ledgers;
BEGIN
    SELECT * INTO it FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0 FOR UPDATE;
    reached := coalesce(it.length, 0);
    IF it.id IS NULL THEN
        outcome := CASE WHEN of_born = '' THEN 'none' ELSE 'unknown' END;
    ELSIF of_born <> '' AND it.born <> of_born THEN
        outcome := 'another';
    ELSIF expected IS NOT NULL AND expected <> it.length THEN
        outcome := 'conflict';
    ELSE
        PERFORM legato.remove(of_tenant, of_name);
        outcome := 'ok';
    END IF;
END
$$;

-- Leases that are given from now on have an epoch above this one, which facts name that come from another store. Others are given epochs
-- meanwhile, so there is a distance: none of them may be given again.
CREATE FUNCTION legato.epochs_beyond(epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT last_value FROM legato.epochs) <= epoch THEN
        PERFORM pg_advisory_xact_lock(5498133208417362245);
        IF (SELECT last_value FROM legato.epochs) <= epoch THEN
            PERFORM setval('legato.epochs', epoch + 1000000);
        END IF;
    END IF;
END
$$;
