"""Who asks and how often: `guard` (credentials, rates) · `quotas` (per user) · `sliding_window` (rule and port)."""
