-- The schema of the first release. Times are Unix milliseconds, and truths are 0 or 1,
-- because SQLite and PostgreSQL agree on no boolean. The statements are common to both.

-- A page exists from its first user on. Its row is the lock for joining and leaving.
CREATE TABLE pages (
    page           TEXT   NOT NULL PRIMARY KEY,
    guests         BIGINT NOT NULL,            -- names given so far: the next user is "Guest guests+1"
    paused_until   BIGINT NOT NULL DEFAULT 0,  -- nothing is sent for the page before
    pause_at       BIGINT NOT NULL DEFAULT 0,  -- the youngest cause of the pause
    pause_reason   TEXT   NOT NULL DEFAULT '',
    resumed_at     BIGINT NOT NULL DEFAULT 0,  -- a pause counts against it, not against other pauses
    last_room      BIGINT NOT NULL DEFAULT 0,  -- the highest number that was given to a public room
    last_code_room BIGINT NOT NULL DEFAULT 0,  -- the same for rooms by code, whose numbers are above those
    audience       BIGINT NOT NULL DEFAULT 0   -- how many people the page may send to, counted now and then
);

-- A user is a person as one page sees them. Only its key is indexed, so that
-- an event changes no index.
CREATE TABLE people (
    page             TEXT   NOT NULL,
    psid             TEXT   NOT NULL,
    name             TEXT   NOT NULL, -- chosen or given, '' before the first room
    lang             TEXT   NOT NULL, -- en, pt, es, or '' when nothing is known
    last_inbound     BIGINT NOT NULL, -- the platform's 24 h window counts from here
    window_closed_at BIGINT,          -- the platform refused a send. NULL again with the next inbound
    last_number      BIGINT NOT NULL, -- public room to come back to, or 0 and the room's code
    last_code        TEXT   NOT NULL,
    muted_until      BIGINT NOT NULL, -- gets no copies before
    banned_until     BIGINT NOT NULL,
    ban_told         BIGINT NOT NULL,
    flood_at         BIGINT NOT NULL, -- when its allowance of events is full again
    flood_told       BIGINT NOT NULL,
    failing_until    BIGINT NOT NULL DEFAULT 0, -- every message fails: gets no copies before, or until its next event
    left_at          BIGINT NOT NULL DEFAULT 0, -- when it left by its own wish. Older events bring it into no room
    left_room        BIGINT NOT NULL DEFAULT 0, -- the room that it left last, where names stand for people
    left_until       BIGINT NOT NULL DEFAULT 0, -- until then
    text_at          BIGINT NOT NULL DEFAULT 0, -- when its share of the page's limit of texts is full again
    media_at         BIGINT NOT NULL DEFAULT 0, -- the same of audio and video
    PRIMARY KEY (page, psid)
);

-- Rooms are numbered in their page. A number is given once: a room by code that
-- empties is gone, and leaves its number to no other.
CREATE TABLE rooms (
    page       TEXT   NOT NULL REFERENCES pages (page),
    number     BIGINT NOT NULL,
    members    BIGINT NOT NULL CHECK (members >= 0), -- how many rows of members
    created_at BIGINT NOT NULL,
    code       TEXT   NOT NULL DEFAULT '',           -- public rooms have none
    PRIMARY KEY (page, number)
);
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
-- One room per user and page.
CREATE UNIQUE INDEX members_psid ON members (page, psid);
CREATE UNIQUE INDEX members_name ON members (page, room, name_key);

-- A name that a member gave up, by leaving its room or by taking another name. It
-- stays with that member until then, and stands for it in blocks and reports. A
-- name has a row for each of its skeletons.
CREATE TABLE past_names (
    page     TEXT   NOT NULL,
    room     BIGINT NOT NULL,
    skeleton TEXT   NOT NULL,
    psid     TEXT   NOT NULL,
    name     TEXT   NOT NULL,
    until    BIGINT NOT NULL,
    PRIMARY KEY (page, room, skeleton)
);
CREATE INDEX past_names_psid ON past_names (page, psid, room);
CREATE INDEX past_names_until ON past_names (until);

-- The members whom /who showed a user last. The number behind /block counts in it.
CREATE TABLE shown_members (
    page    TEXT   NOT NULL,
    psid    TEXT   NOT NULL,
    room    BIGINT NOT NULL,
    members TEXT   NOT NULL, -- PSID, name, PSID, name and so on, with U+001F between them
    at      BIGINT NOT NULL,
    PRIMARY KEY (page, psid)
);
CREATE INDEX shown_members_at ON shown_members (at);
-- A user stands in lists of the rooms that it was in.
CREATE INDEX shown_members_room ON shown_members (page, room);

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

-- For operators. The reports of one user about another are one report, with the data
-- of the last.
CREATE TABLE reports (
    page     TEXT   NOT NULL,
    event_id TEXT   NOT NULL,
    reporter TEXT   NOT NULL,
    room     BIGINT NOT NULL, -- the reporter's, 0 for none
    accused  TEXT   NOT NULL, -- PSID of the member whom it is about
    name     TEXT   NOT NULL, -- of that member
    at       BIGINT NOT NULL,
    times    BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (page, event_id)
);
CREATE INDEX reports_at ON reports (at);
CREATE INDEX reports_pair ON reports (page, reporter, accused);
CREATE INDEX reports_page ON reports (page, at, event_id);
-- Reports about a user are deleted with it.
CREATE INDEX reports_accused ON reports (page, accused);

-- The texts of the accused, kept as long as the report.
CREATE TABLE report_texts (
    page     TEXT   NOT NULL,
    report   TEXT   NOT NULL, -- event_id of the report
    event_id TEXT   NOT NULL,
    at       BIGINT NOT NULL,
    text     TEXT   NOT NULL,
    PRIMARY KEY (page, report, event_id),
    FOREIGN KEY (page, report) REFERENCES reports (page, event_id) ON DELETE CASCADE
);

-- Received events, by which repetitions are recognised.
CREATE TABLE processed_events (
    page     TEXT   NOT NULL,
    event_id TEXT   NOT NULL,
    at       BIGINT NOT NULL, -- when it was received, by our clock. Old rows are pruned
    outcome  TEXT,            -- JSON of its result, until its copies are confirmed, then NULL
    psid     TEXT,            -- with room and text: what a member wrote, for a report. NULL: nothing
    room     BIGINT,
    text     TEXT,            -- '' for the event by which a silent user left, whose id has the user's
    PRIMARY KEY (page, event_id)
);
CREATE INDEX processed_events_at ON processed_events (at);
CREATE INDEX processed_events_text ON processed_events (page, psid, room, at) WHERE text IS NOT NULL;

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
-- The same of all rooms of a page together, so that a list of pages need not add up
-- their rooms.
CREATE TABLE page_hours (
    page   TEXT   NOT NULL,
    hour   BIGINT NOT NULL, -- Unix hours
    events BIGINT NOT NULL,
    copies BIGINT NOT NULL,
    PRIMARY KEY (page, hour)
);
CREATE INDEX page_hours_hour ON page_hours (hour);

-- Texts of the operators on their way to the members of a room or a page.
CREATE TABLE broadcasts (
    id         TEXT             NOT NULL PRIMARY KEY,
    page       TEXT             NOT NULL,
    room       BIGINT           NOT NULL, -- 0 for all rooms of the page
    text       TEXT             NOT NULL,
    rate       DOUBLE PRECISION NOT NULL, -- messages per second at most
    deadline   BIGINT           NOT NULL,
    created    BIGINT           NOT NULL,
    recipients BIGINT           NOT NULL, -- when it was made
    state      TEXT             NOT NULL, -- running, done, stopped or expired
    cursor     TEXT             NOT NULL, -- the last recipient whose messages are queued
    queued     BIGINT           NOT NULL, -- number of recipients up to there
    due        BIGINT           NOT NULL, -- when the next recipient is due
    holder     TEXT             NOT NULL, -- the core that works on it, '' for none
    until      BIGINT           NOT NULL  -- after that another core may
);
-- The lease is in no index, so that prolonging it changes none.
CREATE INDEX broadcasts_running ON broadcasts (page, created) WHERE state = 'running';
