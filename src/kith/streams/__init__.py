"""What connected readers are told: `live` (as it happens) · `missed` (on a resume) · `changes` (read from the log) ·
`readers` (who is concerned) · `telling` (the messages)."""
