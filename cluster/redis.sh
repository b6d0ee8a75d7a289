#!/usr/bin/env bash
# redis.sh up|down: runs a Redis Cluster of three primaries and three replicas on 127.0.0.1, from port ${KITH_REDIS_PORT:-17001} on.
# KITH_REDIS_BIND: another address, as in compose.yaml. The files of a node are in cluster/run/redis-PORT/ITS-PORT. `up` waits until
# every node reports cluster_state:ok; `down` stops the nodes and removes their files. `start ITS-PORT` restarts a node that was killed.
set -euo pipefail
cd "$(dirname "$0")"
. ./servers.sh
first=${KITH_REDIS_PORT:-17001}
ports=$(seq "$first" $((first + 5)))
run=run/redis-$first
server=$(command -v redis-server || command -v valkey-server || true)
cli=$(command -v redis-cli || command -v valkey-cli || true)

up() {
  [ -n "$server" ] && [ -n "$cli" ] || fail "no redis-server: install Debian's redis-server, or Valkey"
  down
  for port in $ports; do configure "$port"; start "$port"; done
  for port in $ports; do until_true "$port" Redis says "$port" PONG ping; done
  "$cli" --cluster create $(printf '127.0.0.1:%s ' $ports) --cluster-replicas 1 --cluster-yes > "$run/create.log"
  for port in $ports; do until_ready "$port"; done
}

configure() {  # PORT
  mkdir -p "$run/$1"
  cat > "$run/$1/redis.conf" <<C
bind ${KITH_REDIS_BIND:-127.0.0.1}
protected-mode no
port $1
dir $PWD/$run/$1
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
}

start() { started "$1" "$server" "$run/$1/redis.conf"; }  # PORT

until_ready() { until_true "$1" Redis says "$1" cluster_state:ok cluster info; }  # PORT

says() {  # PORT WORD COMMAND...
  "$cli" -p "$1" "${@:3}" | grep "$2"
}

"$@"
