-- Times are Unix milliseconds. The statements are common to SQLite and PostgreSQL.

-- A page exists from its first user on. Its row is the lock for joining and leaving.
CREATE TABLE pages (
    page   TEXT   NOT NULL PRIMARY KEY,
    guests BIGINT NOT NULL -- names given so far; the next user is "Guest guests+1"
);

-- A user is a person as one page sees them.
CREATE TABLE users (
    page             TEXT   NOT NULL,
    psid             TEXT   NOT NULL,
    name             TEXT,            -- NULL only inside the transaction of the first event
    last_inbound     BIGINT NOT NULL, -- the platform's 24 h window counts from here
    window_closed_at BIGINT,          -- the platform refused a send; NULL again with the next inbound
    PRIMARY KEY (page, psid),
    UNIQUE (page, name)
);

-- Rooms are numbered from 1 in their page.
CREATE TABLE rooms (
    page       TEXT   NOT NULL REFERENCES pages (page),
    number     BIGINT NOT NULL,
    members    BIGINT NOT NULL CHECK (members >= 0), -- how many rows of memberships
    created_at BIGINT NOT NULL,
    PRIMARY KEY (page, number)
);

CREATE TABLE memberships (
    page      TEXT   NOT NULL,
    room      BIGINT NOT NULL,
    psid      TEXT   NOT NULL,
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (page, room, psid),
    FOREIGN KEY (page, room) REFERENCES rooms (page, number),
    FOREIGN KEY (page, psid) REFERENCES users (page, psid)
);

-- One room per user and page.
CREATE UNIQUE INDEX memberships_user ON memberships (page, psid);

-- Received events, by which repetitions are recognised.
CREATE TABLE processed_events (
    page     TEXT   NOT NULL,
    event_id TEXT   NOT NULL,
    at       BIGINT NOT NULL, -- when it was received, by our clock; old rows are pruned
    outcome  TEXT,            -- JSON of its result, until its copies are confirmed; then NULL
    PRIMARY KEY (page, event_id)
);

CREATE INDEX processed_events_at ON processed_events (at);
