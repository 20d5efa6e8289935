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
