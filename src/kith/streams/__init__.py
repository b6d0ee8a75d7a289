"""What connected readers are sent while they look at their feed.

A *reader* is a user with open *streams*. An event of the log that matters to readers is a *change*. A change makes
*messages*, which are sent to the streams that it concerns. Each message carries a *place*: the position in the log up
to which the stream was sent everything. A stream *watches* the posts on its reader's screen. Once a second a *round*
checks the watched posts that changed.

- `changes`: every kind of change, and what it sends live and on a resume. Start here. `interpreter` reads changes from
  events
- `messages`, `stream`, `positions`: what is sent, one connection, and how far a stream is
- live: `live` (opens and ends streams, follows the log), `tail` (the changes read from the log), `change_sender`
  (sends a change to open streams), `rounds`, `unread_numbers` (an unread number that changed without a notice),
  `open_streams` (the only way out)
- on a resume: `missed`
- `readers`: which connected users follow an author or may see a post
"""
