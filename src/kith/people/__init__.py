"""What people do to each other and say of themselves: `relations` · `profiles` · `usernames`."""
