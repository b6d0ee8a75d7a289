"""Ranking, decided by pure functions over arrays: nothing here waits or reads a store.

`features`: what is known of each candidate, as numbers from 0 to 1 · `light`: features to scores · `candidates`: posts
with both, in columns · `page`: which of the ranked posts make a page (diversity, room for new posts).
"""
