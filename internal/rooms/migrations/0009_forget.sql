-- Forgetting a user reads what is kept of it, not what its page has.

-- The event by which a silent user left has the user in its id. It is found by psid,
-- with an empty text: idle/PSID/123.
UPDATE processed_events SET psid = SUBSTR(RTRIM(RTRIM(event_id, '0123456789'), '/'), 6), text = ''
WHERE event_id LIKE 'idle/%' AND psid IS NULL;

-- A user stands in lists of the rooms that it was in.
CREATE INDEX shown_members_room ON shown_members (page, room);

-- Work that one core does for all of them: no other one before that time.
CREATE TABLE chores (
    name  TEXT   NOT NULL PRIMARY KEY,
    until BIGINT NOT NULL
);
