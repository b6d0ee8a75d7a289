"""Stories: `stories` (posts that are over after some hours) · `strip` (whose there are for a reader) · `reclaiming`
(their room given back)."""
