-- Epochs belong to their ledger alone: what facts of one ledger name, which may come from anywhere, changes nothing for another. And a lease
-- says how long it lasts, so that one which was given by a clock that was set back since is told from one that is held.

ALTER TABLE legato.ledgers ADD COLUMN lasts double precision; -- how many seconds the newest lease was given for

-- The newest epoch that the ledger's facts name. Until now those of other stores were put into the sequence, and no row says which they were.
DO $$
DECLARE
    known bigint;
BEGIN
    SELECT last_value INTO known FROM legato.epochs;
    EXECUTE format('ALTER TABLE legato.ledgers ADD COLUMN named bigint NOT NULL DEFAULT %s', CASE WHEN known < 1::bigint << 52 THEN known ELSE 0 END);
    ALTER TABLE legato.ledgers ALTER COLUMN named SET DEFAULT 0;
END
$$;

DROP FUNCTION legato.epochs_beyond(bigint);
DROP FUNCTION legato.append(text, text, integer, text, bigint, smallint, bytea[], integer[], text[], bytea[], integer[]);
DROP FUNCTION legato.fork(text, text, integer, text, text, text, bigint, smallint, bytea[], integer[], integer);
DROP FUNCTION legato.is_free(timestamptz, double precision);
DROP FUNCTION legato.lease(text, text, double precision);
DROP FUNCTION legato.renew(text[], text[], bigint[], double precision, boolean);
DROP FUNCTION legato.release(text[], text[], bigint[], integer[]);
DROP SEQUENCE legato.epochs;

-- `newest`: the newest epoch that these facts name. It is none of the lease that is held, which goes on.
-- outcome: 'ok', 'conflict' (reached: the length found), 'unknown', 'another'
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
        -- The usual case is one update, which waits for whoever else writes to this ledger and then looks at what they left.
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
        INSERT INTO legato.ledgers (tenant, name, length, updated, touched, born, named)
            VALUES (of_tenant, of_name, added, last_at, nextval('legato.touches'), CASE WHEN added > 0 THEN by_born ELSE '' END, newest)
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

-- outcome: as before. A fork's epochs begin above its parent's.
CREATE FUNCTION legato.fork(
    of_tenant text, of_name text, at_position integer, new_name text, by_born text, of_born text, last_at bigint, in_format smallint,
    bodies bytea[], crcs integer[], expected integer, newest bigint, OUT outcome text, OUT reached integer
) LANGUAGE plpgsql AS $$
DECLARE
    above bigint;
BEGIN
    -- The row stays locked until the end, so what is looked at here is what the fork is made of.
    SELECT l.length, greatest(l.epoch, l.named, newest) INTO reached, above FROM legato.ledgers l
        WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0 AND (of_born = '' OR l.born = of_born) FOR UPDATE;
    IF reached <> expected THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    SELECT f.outcome, f.reached INTO outcome, reached
        FROM legato.fork(of_tenant, of_name, at_position, new_name, by_born, of_born, last_at, in_format, bodies, crcs) f;
    IF outcome = 'ok' THEN
        UPDATE legato.ledgers l SET named = greatest(l.named, above) WHERE l.tenant = of_tenant AND l.name = new_name;
    END IF;
END
$$;

-- Whether a lease that was given until then, for so many seconds, is over. The clock is the server's, and so the same for everybody. While a
-- server is down nobody can renew a lease; so when it has started again, its holders have the time of one to come back. A server that seems to
-- have started in the future had its clock set back since.
CREATE FUNCTION legato.is_over(until timestamptz, lasts double precision, started timestamptz, present timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT until IS NULL OR (
        until <= present AND (started > present OR started + make_interval(secs => lasts) <= present)
    )
$$;

-- Whether a lease ends later than it can: the clock was set back since it was given or renewed.
CREATE FUNCTION legato.is_of_the_future(until timestamptz, lasts double precision, present timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT until IS NOT NULL AND until > present + make_interval(secs => lasts)
$$;

-- outcome: 'ok' (epoch, number), 'held', 'none left' (there is no larger epoch)
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
        -- Its holder may live, and then renews it soon. So it goes on for as long as one that was just renewed.
        UPDATE legato.ledgers l SET until = clock_timestamp() + make_interval(secs => coalesce(l.lasts, seconds))
            WHERE l.tenant = of_tenant AND l.name = of_name
                AND legato.is_of_the_future(l.until, coalesce(l.lasts, seconds), clock_timestamp());
        SELECT greatest(l.epoch, l.named) INTO known FROM legato.ledgers l WHERE l.tenant = of_tenant AND l.name = of_name;
        IF FOUND THEN
            outcome := CASE WHEN known < largest THEN 'held' ELSE 'none left' END;
            RETURN;
        END IF;
        INSERT INTO legato.ledgers (tenant, name, epoch, until, lasts)
            VALUES (of_tenant, of_name, 1, clock_timestamp() + make_interval(secs => seconds), seconds)
            ON CONFLICT (tenant, name) DO NOTHING RETURNING 'ok', epoch, id INTO outcome, given, number;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- The numbers of the ledgers whose leases live on. A row that somebody is just writing to is left out, so that the others need not wait for it:
-- that one is to be asked for alone, with `patient`. Then a lease that is not among the answers is lost.
CREATE FUNCTION legato.renew(tenants text[], numbers bigint[], epochs bigint[], seconds double precision, patient boolean)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- what is lost with the server is renewed again
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

-- Gives leases back that are still theirs; `rested` is NULL where a driver did not come to rest.
CREATE FUNCTION legato.release(tenants text[], numbers bigint[], epochs bigint[], rests integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- if it is lost with the server, the lease ends with its time
    UPDATE legato.ledgers l SET until = NULL, rested = coalesce(given.rested, l.rested)
    FROM unnest(tenants, numbers, epochs, rests) AS given (tenant, number, epoch, rested)
    WHERE l.tenant = given.tenant AND l.id = given.number AND l.epoch = given.epoch;
END
$$;

-- As before; and a seat that ends later than it can was given by a clock that was set back since.
CREATE OR REPLACE FUNCTION legato.take_permit(
    of_name text, for_seat text, at_once integer, apart double precision, lasts double precision, OUT wait double precision
) LANGUAGE plpgsql AS $$
DECLARE
    due timestamptz;
    present timestamptz;
BEGIN
    -- The row is the lock: what the statements after it see was left by whoever had it before.
    INSERT INTO legato.permit_starts AS s (name, next) VALUES (of_name, clock_timestamp())
        ON CONFLICT (name) DO UPDATE SET next = s.next RETURNING s.next INTO due;
    present := clock_timestamp();
    DELETE FROM legato.permits p WHERE p.name = of_name
        AND (p.until < present OR p.until > present + make_interval(secs => lasts));
    wait := extract(epoch FROM due - present);
    IF wait > 0 AND wait <= apart THEN -- one that is further off was left by a clock that was set back, or by another limit
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
