-- Numbers of rooms are given once: a room by code that is gone leaves its
-- number, under which its hours and reports are kept, to no other. last_room is
-- the highest given so far.
ALTER TABLE pages ADD COLUMN last_room BIGINT NOT NULL DEFAULT 0;
UPDATE pages SET last_room = (
    SELECT COALESCE(MAX(number), 0) FROM (
        SELECT page, number FROM rooms
        UNION ALL SELECT page, room FROM room_hours
        UNION ALL SELECT page, room FROM reports
    ) given WHERE given.page = pages.page
);

-- The reports of one user about another are one report, with the data of the last.
ALTER TABLE reports ADD COLUMN times BIGINT NOT NULL DEFAULT 1;
-- Not unique: a core of the version before, which an upgrade leaves running for
-- a while, knows nothing of it. The reporter's row is locked where it matters.
CREATE INDEX reports_pair ON reports (page, reporter, accused);
UPDATE reports SET times = (
    SELECT COUNT(*) FROM reports o
    WHERE o.page = reports.page AND o.reporter = reports.reporter AND o.accused = reports.accused
);
DELETE FROM reports WHERE EXISTS (
    SELECT 1 FROM reports o
    WHERE o.page = reports.page AND o.reporter = reports.reporter AND o.accused = reports.accused
        AND (o.at > reports.at OR o.at = reports.at AND o.event_id > reports.event_id)
);
CREATE INDEX reports_page ON reports (page, at, event_id);

-- A pause counts against the last resumption, not against other pauses; pause_at
-- is the youngest cause of the pause.
ALTER TABLE pages ADD COLUMN resumed_at BIGINT NOT NULL DEFAULT 0;
UPDATE pages SET resumed_at = pause_at WHERE paused_until = 0;
