"""How Kith runs: `config` and `limits` (settings) · `wiring` (engines to services) · `processes`,
`supervisor` · `logs`."""
