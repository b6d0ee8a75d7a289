#!/usr/bin/env bash
# redis.sh up|down: a Redis Cluster of three primaries and three replicas on 127.0.0.1, from port ${KITH_REDIS_PORT:-17001} on.
# KITH_REDIS_BIND: another address, as in compose.yaml. Its files are in cluster/run/redis. `up` waits until every node says that
# the cluster is whole; `down` removes them.
set -euo pipefail
cd "$(dirname "$0")"
first=${KITH_REDIS_PORT:-17001}
ports=$(seq "$first" $((first + 5)))
server=$(command -v redis-server || command -v valkey-server || true)
cli=$(command -v redis-cli || command -v valkey-cli || true)

down() {
  for pid in run/redis/*/pid; do [ -f "$pid" ] && kill "$(cat "$pid")" 2>/dev/null || true; done
  for pid in run/redis/*/pid; do
    [ -f "$pid" ] || continue
    for _ in $(seq 50); do kill -0 "$(cat "$pid")" 2>/dev/null || break; sleep 0.1; done
  done
  rm -rf run/redis
}

up() {
  [ -n "$server" ] && [ -n "$cli" ] || { echo "no redis-server: install Debian's redis-server, or Valkey" >&2; exit 1; }
  down
  for port in $ports; do
    mkdir -p "run/redis/$port"
    cat > "run/redis/$port/redis.conf" <<C
bind ${KITH_REDIS_BIND:-127.0.0.1}
protected-mode no
port $port
dir $PWD/run/redis/$port
cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout 2000
cluster-replica-validity-factor 0
cluster-allow-replica-migration no
save ""
appendonly no
repl-diskless-sync-delay 0
maxmemory 256mb
maxmemory-policy noeviction
C
    "$server" "run/redis/$port/redis.conf" > "run/redis/$port/log" 2>&1 < /dev/null &
    echo $! > "run/redis/$port/pid"
  done
  for port in $ports; do until_says "$port" PONG ping; done
  "$cli" --cluster create $(printf '127.0.0.1:%s ' $ports) --cluster-replicas 1 --cluster-yes > run/redis/create.log
  for port in $ports; do until_says "$port" cluster_state:ok cluster info; done
}

until_says() {  # PORT WORD COMMAND...
  local port=$1 word=$2
  shift 2
  for _ in $(seq 300); do "$cli" -p "$port" "$@" 2>/dev/null | grep -q "$word" && return; sleep 0.1; done
  echo "the node at port $port does not say $word; see cluster/run/redis/$port/log" >&2
  exit 1
}

"$1"
