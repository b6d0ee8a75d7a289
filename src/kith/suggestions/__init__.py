"""People you may know: `discovery` (two hops, scored) · `suggestions` (kept, checked on every read) · `batch` (for
everyone) · `store` (the port)."""
