"""Consumers of the event log, one file each: events in, service calls out. `log.runner` runs them."""
