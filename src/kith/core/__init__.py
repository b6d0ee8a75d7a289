"""What every room needs and nobody may depend on the other way: ids, clock, cursors, tokens, errors.

No I/O here, and no import of any other part of kith.
"""
