#!/usr/bin/env bash
# kafka.sh up|down [NODES=1]: runs Kafka on 127.0.0.1, for clients at port ${KITH_KAFKA_PORT:-19092} and the ports after it, one a broker.
# Needs Java 17, and, the first time, Maven, which fetches the published artifacts of kafka.pom.xml into cluster/lib.
# The files of a broker are in cluster/run/kafka-PORT/N. `up` waits until each broker has started; `down` stops them and removes their
# files. `start N` restarts a broker that was killed.
set -euo pipefail
cd "$(dirname "$0")"
. ./servers.sh
port=${KITH_KAFKA_PORT:-19092}
heap=${KITH_KAFKA_HEAP:-384m}
run=run/kafka-$port
nodes=${2:-1}
cluster_id=a2l0aC1jbHVzdGVyLWthZg  # 16 bytes in base64, as Kafka writes ids

fetch() { fetched kafka; }

up() {
  needs java "Java 17 (Debian's openjdk-17-jre-headless)"
  fetch
  down
  mkdir -p "$run"
  cat > "$run/log4j2.properties" <<L
status = error
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
logger.ks.name = kafka.server
logger.ks.level = INFO
L
  for node in $(seq "$nodes"); do configure "$node"; done
  for node in $(seq "$nodes"); do start "$node"; done  # start all before waiting for any: they need each other
  for node in $(seq "$nodes"); do until_ready "$node"; done
}

configure() {  # NODE
  local here=$run/$1 voters="" copies=$((nodes < 3 ? 1 : 3)) enough=$((nodes < 3 ? 1 : 2)) node
  for node in $(seq "$nodes"); do voters+="${voters:+,}$node@127.0.0.1:$((port + 999 + node))"; done
  mkdir -p "$here"
  cat > "$here/server.properties" <<P
process.roles=broker,controller
node.id=$1
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$((port + $1 - 1)),CONTROLLER://127.0.0.1:$((port + 999 + $1))
advertised.listeners=PLAINTEXT://127.0.0.1:$((port + $1 - 1))
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=$here/data
num.network.threads=2
num.io.threads=4
auto.create.topics.enable=false
default.replication.factor=$copies
min.insync.replicas=$enough
offsets.topic.replication.factor=$copies
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$copies
transaction.state.log.min.isr=$enough
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$copies
share.coordinator.state.topic.min.isr=$enough
share.coordinator.state.topic.num.partitions=4
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=16777216
P
  java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'lib/kafka/*' \
    -Dlog4j2.configurationFile="$run/log4j2.properties" \
    kafka.tools.StorageTool format -t "$cluster_id" -c "$here/server.properties" > "$here/format.log" 2>&1
}

start() {  # NODE
  local here=$run/$1
  started "$1" java -Xms"$heap" -Xmx"$heap" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:+ExplicitGCInvokesConcurrent \
    -XX:MaxDirectMemorySize=128m -Djava.awt.headless=true \
    -Dlog4j2.configurationFile="$run/log4j2.properties" -Dkafka.logs.dir="$here" \
    -cp 'lib/kafka/*' kafka.Kafka "$here/server.properties"
}

until_ready() {  # NODE
  until_true "$1" Kafka grep -s 'Kafka Server started' "$run/$1/log"
}

"$@"
