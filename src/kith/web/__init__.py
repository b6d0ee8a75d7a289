"""What a browser shows: `site` reads the files of a page and says how they are sent, `joining` makes one script of its
modules; `app/` is the reader, which runs on the JavaScript client (`clients/js`), `console/` the operator's. Their
routes are in `api/resources/web.py` and `console.py`.
"""
