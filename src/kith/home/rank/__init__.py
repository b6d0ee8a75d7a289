"""Ranking, decided purely over arrays: `features` (what is known of each candidate) · `light` (the light pass) ·
`page` (diversity, freshness: which of the ranked make a page).
"""
