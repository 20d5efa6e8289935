-- room_hours of all rooms of a page together, so that a list of pages need not add
-- up their rooms.
CREATE TABLE page_hours (
    page   TEXT   NOT NULL,
    hour   BIGINT NOT NULL, -- Unix hours
    events BIGINT NOT NULL,
    copies BIGINT NOT NULL,
    PRIMARY KEY (page, hour)
);
CREATE INDEX page_hours_hour ON page_hours (hour);
INSERT INTO page_hours
SELECT page, hour, SUM(events), SUM(copies) FROM room_hours GROUP BY page, hour;

-- How many people the page may send to, counted now and then.
ALTER TABLE pages ADD COLUMN audience BIGINT NOT NULL DEFAULT 0;

-- Reports about a user are deleted with it.
CREATE INDEX reports_accused ON reports (page, accused);
