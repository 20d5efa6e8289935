-- Names that members gave up, what reports are about, and when a user left.

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

-- When the user left by its own wish. Older events bring it into no room. Both times
-- are the platform's.
ALTER TABLE people ADD COLUMN left_at BIGINT NOT NULL DEFAULT 0;
-- The room that it left last. Until then names stand for people in it.
ALTER TABLE people ADD COLUMN left_room BIGINT NOT NULL DEFAULT 0;
ALTER TABLE people ADD COLUMN left_until BIGINT NOT NULL DEFAULT 0;

-- Rooms by code have numbers of their own, above those of public rooms.
ALTER TABLE pages ADD COLUMN last_code_room BIGINT NOT NULL DEFAULT 0;

-- What a member wrote is kept with its event, for a report. NULL: nothing.
ALTER TABLE processed_events ADD COLUMN psid TEXT;
ALTER TABLE processed_events ADD COLUMN room BIGINT;
ALTER TABLE processed_events ADD COLUMN text TEXT;
CREATE INDEX processed_events_text ON processed_events (page, psid, room, at) WHERE text IS NOT NULL;

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
