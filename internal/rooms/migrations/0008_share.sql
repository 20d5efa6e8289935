-- When a member's share of its page's limits is full again, for texts and for audio
-- and video.
ALTER TABLE people ADD COLUMN text_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE people ADD COLUMN media_at BIGINT NOT NULL DEFAULT 0;
