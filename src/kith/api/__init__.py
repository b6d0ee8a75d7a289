"""HTTP. One file per resource, and around them: `guard` (who may do what, how often), `errors` (our errors
as status numbers), `operations` (what the hot routes do), `fast` (those routes without a framework),
`bridge` (everything else, through Litestar), `metrics`, `docs`.
"""
