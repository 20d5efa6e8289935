-- A member whom every message fails to reach gets no copies before this time, or
-- until its next event.
ALTER TABLE people ADD COLUMN failing_until BIGINT NOT NULL DEFAULT 0;
