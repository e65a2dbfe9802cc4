-- Permits to call models (engines/permits.py): beside the ledgers, and for all tenants alike, since providers count them all together.

CREATE TABLE legato.permits (
    seat text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    until timestamptz NOT NULL             -- its holder puts this off while it lives
);
CREATE INDEX permits_name ON legato.permits (name);

CREATE TABLE legato.permit_starts (
    name text COLLATE "C" PRIMARY KEY,
    next timestamptz NOT NULL              -- when the next call may begin
);

-- NULL: the seat is taken, and the call begins now. Else in how many seconds one may be had; 0 if that is not known, while there is no seat.
-- Nothing is kept for who has to wait, so that who dies meanwhile keeps nobody waiting.
CREATE FUNCTION legato.take_permit(
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
    DELETE FROM legato.permits p WHERE p.name = of_name AND p.until < present;
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
