"""Kafka: commands and those who decide them, and the event log. See README.md.

`broker` is what Kafka is asked, `connecting` asks a real one. On it stand `commits` (the records of events, and how one
owner at a time appends them) and `book` (what groups save, by the pure rules of `book_state`). `commands` and `owning`
are the two sides of a write; `recent`, `log_store`, `subscription` and `retention` are the log.
"""
