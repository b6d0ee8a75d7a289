"""Records of any kind: `store` (the port) · `claims` (what an Idempotency-Key stands for)."""
