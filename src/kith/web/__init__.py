"""The web pages of Kith: `site` reads a page's files and builds their headers, `joining` joins its modules into one
script. `app/` is the reader, a page on the JavaScript client (`clients/js`); `console/` is the operator's page. Their
routes are in `api/resources/web.py` and `console.py`.
"""
