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

-- Seconds until the call may begin; NULL while there is no seat.
CREATE FUNCTION legato.take_permit(
    of_name text, for_seat text, at_once integer, apart double precision, lasts double precision, OUT wait double precision
) LANGUAGE plpgsql AS $$
DECLARE
    begins timestamptz;
BEGIN
    -- The row is the lock: what the statements after it see was left by whoever had it before.
    INSERT INTO legato.permit_starts AS s (name, next) VALUES (of_name, clock_timestamp())
        ON CONFLICT (name) DO UPDATE SET next = s.next RETURNING greatest(s.next, clock_timestamp()) INTO begins;
    DELETE FROM legato.permits p WHERE p.name = of_name AND p.until < clock_timestamp();
    IF at_once > 0 AND (SELECT count(*) FROM legato.permits p WHERE p.name = of_name) >= at_once THEN
        RETURN;
    END IF;
    INSERT INTO legato.permits (seat, name, until) VALUES (for_seat, of_name, begins + make_interval(secs => lasts));
    UPDATE legato.permit_starts s SET next = begins + make_interval(secs => apart) WHERE s.name = of_name;
    wait := extract(epoch FROM begins - clock_timestamp());
END
$$;
