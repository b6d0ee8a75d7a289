#!/usr/bin/env bash
# cassandra.sh up|down [NODES=1]: runs Cassandra on 127.0.0.1, .2, .3, with CQL at port ${KITH_CASSANDRA_PORT:-19042} of each.
# Needs Java 11 or 17, and, the first time, Maven, which fetches the published artifacts of cassandra.pom.xml into cluster/lib.
# KITH_CASSANDRA_DATACENTRES=2 assigns the nodes to dc1 and dc2 in turn.
# The files of a node are in cluster/run/cassandra-PORT/N. `up` waits until each node takes statements; `down` stops the nodes and
# removes their files. `start N` restarts a node that was killed.
# Heap: every test server has its own keyspace, and each table takes some heap. 640 MB were full after two runs of all suites.
set -euo pipefail
cd "$(dirname "$0")"
. ./servers.sh
port=${KITH_CASSANDRA_PORT:-19042}
heap=${KITH_CASSANDRA_HEAP:-1g}
datacentres=${KITH_CASSANDRA_DATACENTRES:-1}
slack_ns=500000
run=run/cassandra-$port
nodes=${2:-1}

fetch() { fetched cassandra; }

up() {
  needs java "Java 17 (Debian's openjdk-17-jre-headless)"
  fetch
  down
  for node in $(seq "$nodes"); do configure "$node"; start "$node"; until_ready "$node"; done
}

configure() {  # NODE
  local here=$run/$1
  mkdir -p "$here/conf"
  printf 'dc=dc%d\nrack=rack%d\n' $((($1 - 1) % datacentres + 1)) "$1" > "$here/conf/cassandra-rackdc.properties"
  cat > "$here/conf/logback.xml" <<'L'
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level [%thread] %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
L
  cat cassandra.yaml - > "$here/conf/cassandra.yaml" <<Y
$([ "$nodes" -ge 3 ] && echo "allocate_tokens_for_local_replication_factor: 3")
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: "127.0.0.1:$((port + 1000))"}]
listen_address: 127.0.0.$1
rpc_address: 127.0.0.$1
storage_port: $((port + 1000))
native_transport_port: $port
data_file_directories: [$here/data]
commitlog_directory: $here/commitlog
saved_caches_directory: $here/saved_caches
hints_directory: $here/hints
cdc_raw_directory: $here/cdc_raw
Y
}

# The schema is not flushed (flush_local_schema_changes): new tables are in the commit log, and flushing takes most of a minute.
start() {  # NODE
  local here=$run/$1 unlocked=()
  # As root, Cassandra would lock its whole heap in memory; drop that capability.
  [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null && unlocked=(setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock)
  slack
  # shellcheck disable=SC2086
  started "$1" "${unlocked[@]}" java $(opened) -Xms"$heap" -Xmx"$heap" -Xss256k -XX:MaxDirectMemorySize=256m -XX:+UseG1GC \
    -XX:+ExitOnOutOfMemoryError -XX:+PerfDisableSharedMem -Djava.net.preferIPv4Stack=true -Djava.awt.headless=true \
    -Djdk.attach.allowAttachSelf=true -Dio.netty.tryReflectionSetAccessible=true \
    -Dcassandra.test.flush_local_schema_changes=false \
    -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.superuser_setup_delay_ms=0 \
    -Dcassandra.ring_delay_ms=$((nodes > 1 ? 5000 : 500)) \
    -Dcassandra.consistent.rangemovement=false -Dcassandra-foreground=yes \
    -Dcassandra.config="file:$PWD/$here/conf/cassandra.yaml" -Dcassandra.storagedir="$here" \
    -Dlogback.configurationFile="$here/conf/logback.xml" -Dcassandra.jmx.local.port=$((port + 2000 + $1)) \
    -javaagent:"$(ls lib/cassandra/jamm-*.jar)" -cp "$here/conf:lib/cassandra/*" \
    org.apache.cassandra.service.CassandraDaemon
}

# Raise the timer slack of processes that this shell starts. An idle thread of Cassandra sleeps 10 us at a time for up to 10 ms, which
# takes a third of a core at 300 statements/s.
slack() {
  [ -w /proc/self/timerslack_ns ] && echo "$slack_ns" > /proc/self/timerslack_ns || true
}

opened() {  # the module options that Cassandra 5 needs on Java 17
  local name
  for name in java.base/jdk.internal.misc java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry \
    java.rmi/sun.rmi.server java.sql/java.sql java.base/java.lang.ref jdk.unsupported/sun.misc \
    jdk.compiler/com.sun.tools.javac.file jdk.attach/sun.tools.attach; do
    echo --add-exports "$name=ALL-UNNAMED"
  done
  for name in java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect \
    java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar \
    jdk.management/com.sun.management.internal java.base/sun.nio.ch java.base/java.io java.base/java.nio \
    java.base/java.lang.reflect jdk.compiler/com.sun.tools.javac java.base/java.lang java.base/java.util \
    java.base/java.util.concurrent java.base/java.util.concurrent.atomic; do
    echo --add-opens "$name=ALL-UNNAMED"
  done
}

until_ready() {  # NODE
  until_true "$1" Cassandra grep -s 'Starting listening for CQL clients' "$run/$1/log"
}

"$@"
