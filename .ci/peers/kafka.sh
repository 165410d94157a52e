#!/bin/bash
# One broker of Apache Kafka in KRaft mode, without ZooKeeper, from its Maven
# artifacts, on free ports of the loopback. Topics are not created by use, as
# OpenWhisk's own deployment has it.
. "$(dirname "$0")/lib.sh"

version=3.9.1
libs=$peers/kafka-$version
# A test may run a broker of its own beside the shared one, to restart it.
dir=${GPUWHISK_KAFKA_DIR:-$peers/kafka}
# Containers reach it at another address of this machine than the loopback.
host=${GPUWHISK_KAFKA_HOST:-127.0.0.1}

# The logging back end is what makes the broker say why it stops.
fetch() {
	maven "$1" "org.apache.kafka:kafka_2.13:$version" org.slf4j:slf4j-reload4j:1.7.36
}

install() {
	need java mvn
	once "$libs" fetch || fail "download of Apache Kafka $version by mvn"
}

# configure writes the broker's settings, unless a broker ran here before.
configure() {
	[[ ! -f $dir/server.properties ]] || return 0
	local port quorum
	port=$(free_port)
	until quorum=$(free_port) && [[ $quorum != "$port" ]]; do :; done
	echo "$port" >"$dir/port"
	cat >"$dir/server.properties" <<-CONF
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$quorum
		listeners=PLAINTEXT://$host:$port,CONTROLLER://127.0.0.1:$quorum
		controller.listener.names=CONTROLLER
		listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
		log.dirs=$dir/data
		offsets.topic.replication.factor=1
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		transaction.state.log.num.partitions=2
		group.initial.rebalance.delay.ms=0
		initial.broker.registration.timeout.ms=180000
		auto.create.topics.enable=false
	CONF
	cat >"$dir/log4j.properties" <<-CONF
		log4j.rootLogger=WARN, out
		log4j.appender.out=org.apache.log4j.ConsoleAppender
		log4j.appender.out.layout=org.apache.log4j.PatternLayout
		log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n
	CONF
	java -cp "$libs/*" -Dlog4j.configuration="file:$dir/log4j.properties" \
		kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg \
		-c "$dir/server.properties" >&2 || fail "format the storage of Kafka"
}

start() {
	if alive "$dir"; then
		env
		return 0
	fi
	install
	fresh "$dir"
	configure
	daemon "$dir" java -Xmx512m -Xms128m -XX:+UseSerialGC -cp "$libs/*" \
		-Dlog4j.configuration="file:$dir/log4j.properties" \
		kafka.Kafka "$dir/server.properties"
	if ! await "$dir" 180 open_port "$(cat "$dir/port")" "$host"; then
		tail_of "$dir/log"
		end "$dir"
		fail "Kafka does not start; its log is $dir/log"
	fi
	env
}

env() {
	alive "$dir" || fail "no Kafka of ours is running"
	echo "GPUWHISK_TEST_KAFKA=$host:$(cat "$dir/port")"
}

# stop also forgets the data, unless GPUWHISK_KEEP=1 asks for a restart.
stop() {
	end "$dir"
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$dir"
}

command_of "$@"
