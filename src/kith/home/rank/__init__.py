"""The second step of a page of home: scores the posts that the skeleton found, and chooses a page from them.

Modules that read stores: `ranker` (everything ranking needs, in batches), `facts` (of posts, the same for every
reader), `affinity` (of a reader to authors). Pure functions on arrays: `features` (numbers from 0 to 1), `light`
(features to scores), `candidates` (posts with features and scores, in columns), `mixing` (authors, types and new posts
on a page).
"""
