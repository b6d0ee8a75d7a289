"""Old names of what stands in `cast`, `coroutines`, `edges`, `engines` and `services`."""

# ruff: noqa: F401

from cast import ALICE, BOB, CAROL, DANA, SECRET, START_MS, FakeClock
from coroutines import Run, answer, run_all, time_flies
from edges import G, all_pages, edge_in, edge_of, marks_of, writes_of
from engines import open_embedded
from services import GRAPHS, Social, feed_over, no_images, service_over
