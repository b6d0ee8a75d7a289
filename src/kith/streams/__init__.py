"""What connected readers are sent while they look at their feed.

A *reader* is a user with open *streams*. Each event of the log that matters is a *change*; a change is *told* to the
streams that it concerns, and what is *sent* to a stream is a *message*. A *place* in the log says how far a stream was
told. Streams *watch* the posts on the reader's screen; once a second a *round* looks again at those that changed.

Files: `changes` (every kind of change, and what it means live and on a resume: begin here), read from events by
`interpreter` · `messages` · `stream` and `places` · live: `live` (streams come and go, the log is followed) with `tail`
(what was read of the log), `telling` (a change to open streams), `rounds`, `unread_numbers` (another one because
something was hidden) and `open_streams` (the way out) · on a resume: `missed` · `readers` (who follows, who may see:
asked of the graph and of posts for connected users).
"""
