#!/bin/bash
# One broker of Apache Kafka from its Maven artifacts, in KRaft mode where it has that,
# on free ports of the loopback: one in plain text, and with a login by SASL one in plain
# text and one over TLS. Topics are not created by use, as OpenWhisk's own deployment has
# it. GPUWHISK_KAFKA_VERSION is another version: 2.3.1, which OpenWhisk's chart has, to
# 4.4.0.
. "$(dirname "$0")/lib.sh"

version=${GPUWHISK_KAFKA_VERSION:-3.9.1}
libs=$peers/kafka-$version
# A test may run a broker of its own beside the shared one, to restart it.
dir=${GPUWHISK_KAFKA_DIR:-$peers/kafka}
# Such a one may have further settings (GPUWHISK_KAFKA_MORE, lines).
# Containers reach it at another address of this machine than the loopback.
host=${GPUWHISK_KAFKA_HOST:-127.0.0.1}
# How many seconds its start may take (GPUWHISK_KAFKA_START_LIMIT).
limit=${GPUWHISK_KAFKA_START_LIMIT:-180}
# A broker that lives for a minute (GPUWHISK_KAFKA_BRIEF=1) starts with a third of the work:
# without logins and their certificate, and without code optimization.
brief=${GPUWHISK_KAFKA_BRIEF:-}
jvm=(-XX:+UseSerialGC)
[[ ! $brief ]] || jvm+=(-XX:TieredStopAtLevel=1)

# old is set for a broker that keeps its metadata in ZooKeeper, which runs beside it.
old=
[[ $version != 2.* ]] || old=1
zookeeper=$dir/zookeeper

# With the logging back end the broker prints why it stops.
fetch() {
	if [[ $old ]]; then
		# Its own version of ZooKeeper finds no address with a Java of today.
		maven "$1" "org.apache.kafka:kafka_2.12:$version" org.slf4j:slf4j-log4j12:1.7.26 org.apache.zookeeper:zookeeper:3.5.10
	else
		maven "$1" "org.apache.kafka:kafka_2.13:$version" org.slf4j:slf4j-reload4j:1.7.36
	fi
}

# run CLASS ARGUMENT... is a command of Kafka's.
run() {
	java "${jvm[@]}" -cp "$libs/*" -Dlog4j.configuration="file:$dir/log4j.properties" "$@" >&2
}

# coordinate starts the ZooKeeper of an old broker.
coordinate() {
	mkdir -p "$zookeeper"
	daemon "$zookeeper" java "${jvm[@]}" -Xmx128m -cp "$libs/*" -Dlog4j.configuration="file:$dir/log4j.properties" \
		-Dzookeeper.admin.enableServer=false org.apache.zookeeper.server.ZooKeeperServerMain "$(cat "$dir/port.quorum")" "$zookeeper/data"
	await "$zookeeper" "$limit" open_port "$(cat "$dir/port.quorum")" || fail "ZooKeeper does not start; its log is $zookeeper/log"
}

install() {
	need java mvn
	once "$libs" fetch || fail "download of Apache Kafka $version by mvn"
}

# The login, which env prints for the tests, and the password of the stores.
user=whisk
password='of a test'
store=changeit

# other_port PORT... is a free port that is none of those.
other_port() {
	local p
	until p=$(free_port) && [[ " $* " != *" $p "* ]]; do :; done
	echo "$p"
}

# certificate makes the broker's key and the store that vouches for it.
certificate() {
	keytool -genkeypair -alias kafka -keyalg EC -groupname secp256r1 -validity 3650 \
		-dname CN=kafka -ext "san=ip:$host,ip:127.0.0.1" \
		-storetype PKCS12 -keystore "$dir/kafka.p12" -storepass "$store" >&2 &&
		keytool -exportcert -alias kafka -keystore "$dir/kafka.p12" -storepass "$store" -file "$dir/kafka.crt" >&2 &&
		keytool -importcert -noprompt -alias kafka -file "$dir/kafka.crt" \
			-storetype JKS -keystore "$dir/trust.jks" -storepass "$store" >&2
}

# listener NAME writes the settings of a listener with a login. Logins by
# SCRAM-SHA-256 end soon, so that tests see them being renewed.
listener() {
	local key=listener.name.$1 module=org.apache.kafka.common.security
	cat <<-CONF
		$key.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
		$key.plain.sasl.jaas.config=$module.plain.PlainLoginModule required user_$user="$password";
		$key.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required;
		$key.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;
		$key.scram-sha-256.connections.max.reauth.ms=2000
	CONF
}

# configure writes the broker's settings, unless a broker ran here before.
configure() {
	[[ ! -f $dir/server.properties ]] || return 0
	local port quorum login secure
	port=$(free_port)
	quorum=$(other_port "$port")
	login=$(other_port "$port" "$quorum")
	secure=$(other_port "$port" "$quorum" "$login")
	echo "$port" >"$dir/port"
	echo "$quorum" >"$dir/port.quorum"
	local listeners=PLAINTEXT://$host:$port logins=() secrets=() roles=()
	if [[ $old ]]; then
		roles=("zookeeper.connect=127.0.0.1:$quorum" broker.id=1)
	else
		listeners+=,CONTROLLER://127.0.0.1:$quorum
		roles=(process.roles=broker,controller node.id=1 "controller.quorum.voters=1@127.0.0.1:$quorum"
			controller.listener.names=CONTROLLER "initial.broker.registration.timeout.ms=$((limit * 1000))")
	fi
	if [[ ! $brief ]]; then
		echo "$login" >"$dir/port.sasl"
		echo "$secure" >"$dir/port.sasl-tls"
		certificate || fail "make a certificate by keytool"
		listeners+=,LOGIN://$host:$login,SECURE://$host:$secure
		logins=("$(listener login)" "$(listener secure)"
			ssl.keystore.type=PKCS12 "ssl.keystore.location=$dir/kafka.p12" "ssl.keystore.password=$store")
		secrets=(-S "SCRAM-SHA-256=[name=$user,password=$password]" -S "SCRAM-SHA-512=[name=$user,password=$password]")
	fi
	cat >"$dir/server.properties" <<-CONF
		listeners=$listeners
		listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECURE:SASL_SSL
		log.dirs=$dir/data
		offsets.topic.replication.factor=1
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		transaction.state.log.num.partitions=2
		group.initial.rebalance.delay.ms=0
		auto.create.topics.enable=false
		${GPUWHISK_KAFKA_MORE:-}
	CONF
	printf '%s\n' "${roles[@]}" "${logins[@]}" >>"$dir/server.properties"
	cat >"$dir/log4j.properties" <<-CONF
		log4j.rootLogger=WARN, out
		log4j.appender.out=org.apache.log4j.ConsoleAppender
		log4j.appender.out.layout=org.apache.log4j.PatternLayout
		log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n
	CONF
	if [[ ! $old ]]; then
		run kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg \
			"${secrets[@]}" -c "$dir/server.properties" || fail "format the storage of Kafka"
	elif [[ ! $brief ]]; then
		coordinate
		run kafka.admin.ConfigCommand --zookeeper "127.0.0.1:$quorum" --alter --entity-type users --entity-name "$user" \
			--add-config "SCRAM-SHA-256=[password=$password],SCRAM-SHA-512=[password=$password]" ||
			{ end_all; fail "make the logins of Kafka"; }
	fi
}

start() {
	if alive "$dir"; then
		env
		return 0
	fi
	install
	fresh "$dir"
	configure
	[[ ! $old ]] || alive "$zookeeper" || coordinate
	daemon "$dir" java "${jvm[@]}" -Xmx512m -Xms128m -cp "$libs/*" \
		-Dlog4j.configuration="file:$dir/log4j.properties" \
		kafka.Kafka "$dir/server.properties"
	if ! await "$dir" "$limit" open_port "$(cat "$dir/port")" "$host"; then
		tail_of "$dir/log"
		end_all
		fail "Kafka does not start; its log is $dir/log"
	fi
	env
}

env() {
	alive "$dir" || fail "no Kafka of ours is running"
	echo "GPUWHISK_TEST_KAFKA=$host:$(cat "$dir/port")"
	[[ -f $dir/port.sasl ]] || return 0 # one that an older copy of this script began
	echo "GPUWHISK_TEST_KAFKA_SASL=$host:$(cat "$dir/port.sasl")"
	echo "GPUWHISK_TEST_KAFKA_SASL_TLS=$host:$(cat "$dir/port.sasl-tls")"
	echo "GPUWHISK_TEST_KAFKA_LOGIN=$user:$password"
	echo "GPUWHISK_TEST_KAFKA_TRUST=$dir/trust.jks:$store"
}

end_all() {
	end "$dir"
	end "$zookeeper"
}

# stop also forgets the data, unless GPUWHISK_KEEP=1 asks for a restart.
stop() {
	end_all
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$dir"
}

command_of "$@"
