-- A session and its child sessions, which are deleted together: their names are one range (core/child_ids.py).

CREATE FUNCTION legato.children(of_tenant text, of_name text) RETURNS SETOF legato.ledgers LANGUAGE sql STABLE AS $$
    SELECT * FROM legato.ledgers l
        WHERE l.tenant = of_tenant AND l.name >= of_name || '/' AND l.name < of_name || '0' AND l.length > 0
            AND substr(l.name, length(of_name) + 1) ~ '^(/[0-9a-f]{32}:[0-9]+[.][0-9]+)+$'
$$;

-- Removes a ledger and its children if they are still those that are meant. outcome: 'ok', 'none' (there was none), 'conflict' (found_name and
-- reached: which one differs, and the length found), 'unknown', 'another'
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

DROP FUNCTION legato.remove_if(text, text, integer, text);
