# One command each. `make test` and `make demo` need Python 3.11+ and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PARALLEL := -n $(shell echo $$(( $(CORES) > 4 ? 6 : $(CORES) * 2 ))) --dist worksteal  # more than cores: many tests wait for servers
# A test that fails by a timeout, as on a loaded machine, is retried once and reported as a rerun. A wrong answer is not retried.
AGAIN := --reruns 1 --only-rerun "not so within" --only-rerun "not ready in" --only-rerun "Timeout|timed out"

.PHONY: setup demo test test-faults test-long check bench client-js lock clean test-cluster test-cluster-faults test-web cluster-up cluster-down

setup: $(STAMP)  ## .venv with all pinned dependencies, and kith in it

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Kith needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV), once: about a minute, 700 MB"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup  ## a community that posts, twelve questions with answers and times; then it stays active until Ctrl-C
	$(BIN)/kith demo $(if $(filter command line,$(origin PORT)),--port $(PORT)) $(FILE)

test: setup  ## every test that needs no server
	$(BIN)/python -m pytest $(PARALLEL) $(AGAIN) -m "not long"

test-web: setup  ## the reader and the console in a real Chromium, which it installs where it can
	tests/web/prepare.sh $(CURDIR)/$(VENV)
	TEST_IN_BROWSER=1 $(BIN)/python -m pytest tests/web -n 2 --dist worksteal $(AGAIN) --only-rerun "with timeout"

test-faults: setup  ## hundreds of kills and power cuts, in some minutes; `make test` does a few of each
	$(BIN)/python -m pytest $(PARALLEL) $(AGAIN) -m long tests/fault

test-long: test-faults  ## test-faults, 100,000 steps of each state machine (graph, home, streams) on each engine, and 50 kills per mode of standbys and backups: about an hour
	TEST_KILLS=50 TEST_STEPS=100000 $(BIN)/python -m pytest $(PARALLEL) tests/property/test_graph_machine.py \
	  tests/property/test_home_feed.py tests/property/test_streams_resume.py \
	  tests/fault/test_standby.py tests/fault/test_backup_kill.py

check: setup  ## lint, types, imports, and the tests that take a minute
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" tests/unit tests/rooms tests/conformance tests/property

bench: setup  ## every figure of docs/measured.md, as a table, JSON and a growth curve
	$(BIN)/kith bench

client-js: setup  ## regenerate the JavaScript client after a change of the API
	$(BIN)/python clients/js/generate.py

lock: setup  ## update the pins after a change of dependencies in pyproject.toml; run it with Python 3.11.2 or older, because newer ones drop packages that only these need
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements.txt pyproject.toml
	cd tests/web && ../../$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements.txt requirements.in

NODES ?= 1

cluster-up:  ## start the distributed engines on this machine: a Redis Cluster and an S3 server; Kafka and Cassandra with NODES=1 or 3 nodes
	cluster/redis.sh up
	cluster/kafka.sh up $(NODES)
	cluster/cassandra.sh up $(NODES)
	cluster/s3.sh up

cluster-down:
	cluster/s3.sh down
	cluster/cassandra.sh down
	cluster/redis.sh down
	cluster/kafka.sh down

CLUSTER := KITH_TEST_REDIS=127.0.0.1:$(or $(KITH_REDIS_PORT),17001) KITH_TEST_CASSANDRA=127.0.0.1:$(or $(KITH_CASSANDRA_PORT),19042) \
  KITH_TEST_KAFKA=127.0.0.1:$(or $(KITH_KAFKA_PORT),19092) KITH_TEST_S3=http://127.0.0.1:$(or $(KITH_S3_PORT),19000)
ON_CLUSTER := $(CLUSTER) $(BIN)/python -m pytest -n 2 $(AGAIN)
# Left out: standbys need a data folder; calls per request are counted without a server (`cluster/test_serving_statements.py` counts
# statements).
NOT_ON_CLUSTER := standby calls_in_a_row
# Watchers and webhooks get changes in order within one partition only, so these tests run with one partition.
IN_ORDER := watch watch_many watch_users webhooks
MODELS_ON_CLUSTER := boards_model home_feed notifications_model stories_model suggestion_histories streams_resume

test-cluster: setup  ## the tests for distributed engines, on real engines, which it installs where it can; fails if one does not start
	cluster/prepare.sh
	trap '$(MAKE) --no-print-directory cluster-down' EXIT; $(MAKE) --no-print-directory cluster-up NODES=1 && \
	$(ON_CLUSTER) --dist worksteal tests/cluster tests/conformance --engine cluster_engines:REDIS,CASSANDRA,TOLD,KAFKA,BUCKET && \
	$(ON_CLUSTER) --dist worksteal tests/conformance/test_edge_lists.py tests/conformance/test_edge_ids.py --engine cluster_engines:DIVIDED -k "any_range or removal_and or extreme or throughout" && \
	$(ON_CLUSTER) --dist worksteal $(MODELS_ON_CLUSTER:%=tests/property/test_%.py) --engine cluster_engines:WHOLE -k "naive_model and (redis-seed-0 or 0-rates) or add_up and 1-seed-0" && \
	TEST_ON_CLUSTER=1 $(ON_CLUSTER) --dist loadfile tests/api $(patsubst %,--ignore tests/api/test_%.py,$(NOT_ON_CLUSTER) $(IN_ORDER)) && \
	TEST_ON_CLUSTER=1 TEST_PARTITIONS=1 $(ON_CLUSTER) --dist loadfile $(IN_ORDER:%=tests/api/test_%.py)

test-cluster-faults: setup  ## three servers of each engine; some are killed, stopped and emptied under load: about half an hour
	cluster/prepare.sh
	KITH_TEST_FAULTS=1 $(BIN)/python -m pytest -s tests/cluster -k faults

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist
