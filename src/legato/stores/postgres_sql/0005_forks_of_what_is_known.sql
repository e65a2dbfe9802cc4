-- A fork of a ledger that is as long as its maker believes: what was erased in it meanwhile has to be known to the branch.

-- outcome: as before, and 'conflict' (reached: the length found)
CREATE FUNCTION legato.fork(
    of_tenant text, of_name text, at_position integer, new_name text, by_born text, of_born text, last_at bigint, in_format smallint,
    bodies bytea[], crcs integer[], expected integer, OUT outcome text, OUT reached integer
) LANGUAGE plpgsql AS $$
BEGIN
    -- The row stays locked until the end, so what is looked at here is what the fork is made of.
    SELECT l.length INTO reached FROM legato.ledgers l
        WHERE l.tenant = of_tenant AND l.name = of_name AND l.length > 0 AND (of_born = '' OR l.born = of_born) FOR UPDATE;
    IF reached <> expected THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    SELECT f.outcome, f.reached INTO outcome, reached
        FROM legato.fork(of_tenant, of_name, at_position, new_name, by_born, of_born, last_at, in_format, bodies, crcs) f;
END
$$;
