"""Home timelines as capped id lists, a cache over the outboxes. Rooms: `store` (the port engines implement)."""
