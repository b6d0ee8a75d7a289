"""The second step to a page of home: scores of the posts that the skeleton found, and which of them make a page.

What ranking must read: `ranker` (all of it, in batches) · `facts` (of posts, the same for every reader) · `affinity`
(of a reader to authors). Decided from arrays, by pure functions that read no store: `features` (numbers from 0 to 1) ·
`light` (features to scores) · `candidates` (posts with both, in columns) · `mixing` (of authors, types and new posts on
a page).
"""
