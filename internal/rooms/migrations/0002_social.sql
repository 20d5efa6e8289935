-- Rooms by code, names of a room instead of a page, blocks, mutes, bans,
-- reports, pauses and what operators count. Truths are 0 or 1, because the two
-- databases agree on no boolean.

-- A user is a person as one page sees them. Only its key is indexed, so that
-- an event changes no index.
CREATE TABLE people (
    page             TEXT   NOT NULL,
    psid             TEXT   NOT NULL,
    name             TEXT   NOT NULL, -- chosen or given; '' before the first room
    lang             TEXT   NOT NULL, -- en, pt, es; '' when nothing is known
    last_inbound     BIGINT NOT NULL, -- the platform's 24 h window counts from here
    window_closed_at BIGINT,          -- the platform refused a send; NULL again with the next inbound
    last_number      BIGINT NOT NULL, -- public room to come back to, or 0 and the room's code
    last_code        TEXT   NOT NULL,
    muted_until      BIGINT NOT NULL, -- gets no copies before
    banned_until     BIGINT NOT NULL,
    ban_told         BIGINT NOT NULL,
    flood_at         BIGINT NOT NULL, -- when its allowance is full again
    flood_told       BIGINT NOT NULL,
    PRIMARY KEY (page, psid)
);
INSERT INTO people
SELECT page, psid, COALESCE(name, ''), '', last_inbound, window_closed_at, 1, '', 0, 0, 0, 0, 0 FROM users;

-- Public rooms have no code. A room by code that empties is gone.
ALTER TABLE rooms ADD COLUMN code TEXT NOT NULL DEFAULT '';
CREATE INDEX rooms_code ON rooms (page, code, number);

CREATE TABLE members (
    page      TEXT   NOT NULL,
    room      BIGINT NOT NULL,
    psid      TEXT   NOT NULL,
    name      TEXT   NOT NULL, -- as the room knows it
    name_key  TEXT   NOT NULL, -- unique in the room
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (page, room, psid),
    FOREIGN KEY (page, room) REFERENCES rooms (page, number),
    FOREIGN KEY (page, psid) REFERENCES people (page, psid)
);
INSERT INTO members
SELECT m.page, m.room, m.psid, u.name, LOWER(u.name), m.joined_at
FROM memberships m JOIN users u ON u.page = m.page AND u.psid = m.psid;
DROP TABLE memberships;
DROP TABLE users;
-- One room per user and page.
CREATE UNIQUE INDEX members_psid ON members (page, psid);
CREATE UNIQUE INDEX members_name ON members (page, room, name_key);

CREATE TABLE blocks (
    page     TEXT   NOT NULL,
    blocker  TEXT   NOT NULL,
    blocked  TEXT   NOT NULL,
    name     TEXT   NOT NULL, -- of the blocked one, when it was blocked
    name_key TEXT   NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (page, blocker, blocked)
);
-- Every message asks who blocked its sender.
CREATE INDEX blocks_blocked ON blocks (page, blocked);

-- For operators.
CREATE TABLE reports (
    page     TEXT   NOT NULL,
    event_id TEXT   NOT NULL,
    reporter TEXT   NOT NULL,
    room     BIGINT NOT NULL, -- the reporter's, 0 for none
    accused  TEXT   NOT NULL, -- PSID of the member whom it is about
    name     TEXT   NOT NULL, -- of that member
    at       BIGINT NOT NULL,
    PRIMARY KEY (page, event_id)
);
CREATE INDEX reports_at ON reports (at);

-- Nothing is sent for a page before paused_until; pause_at is when that was last changed.
ALTER TABLE pages ADD COLUMN paused_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pages ADD COLUMN pause_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pages ADD COLUMN pause_reason TEXT NOT NULL DEFAULT '';

-- What was done in each room in an hour, added up every few seconds.
CREATE TABLE room_hours (
    page   TEXT   NOT NULL,
    hour   BIGINT NOT NULL, -- Unix hours
    room   BIGINT NOT NULL, -- 0 for what was done in none
    events BIGINT NOT NULL,
    copies BIGINT NOT NULL,
    PRIMARY KEY (page, hour, room)
);
CREATE INDEX room_hours_hour ON room_hours (hour);
