#!/bin/bash
# A ZooKeeper server from its Maven artifacts, on a free port of the loopback:
# the invoker asks one only when its id is to be assigned by name.
. "$(dirname "$0")/lib.sh"

version=3.8.4
libs=$peers/zookeeper-$version
dir=${GPUWHISK_ZOOKEEPER_DIR:-$peers/zookeeper}
# GPUWHISK_ZOOKEEPER_HOST is the address at which it listens: that of a bridge
# where containers are the clients.
host=${GPUWHISK_ZOOKEEPER_HOST:-127.0.0.1}

# The pom lacks the libraries for metrics and compression, which the server needs.
fetch() {
	maven "$1" "org.apache.zookeeper:zookeeper:$version" \
		io.dropwizard.metrics:metrics-core:4.1.12.1 \
		org.xerial.snappy:snappy-java:1.1.10.5
}

install() {
	need java mvn
	once "$libs" fetch || fail "download of ZooKeeper $version by mvn"
}

configure() {
	[[ ! -f $dir/zoo.cfg ]] || return 0
	local port
	port=$(free_port)
	echo "$port" >"$dir/port"
	cat >"$dir/zoo.cfg" <<-CONF
		tickTime=500
		dataDir=$dir/data
		clientPort=$port
		clientPortAddress=$host
		admin.enableServer=false
		4lw.commands.whitelist=ruok
	CONF
}

# answers asks the server whether it serves, which comes after it listens.
answers() {
	local reply
	exec 3<>"/dev/tcp/$host/$(cat "$dir/port")" || return 1
	echo -n ruok >&3
	read -r -t 5 -n 4 reply <&3 || true
	exec 3>&-
	[[ $reply == imok ]]
}

start() {
	if alive "$dir"; then
		env
		return 0
	fi
	install
	fresh "$dir"
	configure
	daemon "$dir" java -Xmx128m -cp "$libs/*" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg"
	if ! await "$dir" 180 answers; then
		tail_of "$dir/log"
		end "$dir"
		fail "ZooKeeper does not start; its log is $dir/log"
	fi
	env
}

env() {
	alive "$dir" || fail "no ZooKeeper of ours is running"
	echo "GPUWHISK_TEST_ZOOKEEPER=$host:$(cat "$dir/port")"
	echo "GPUWHISK_ZOOKEEPER_JARS=$libs" # for tests that start their own
}

stop() {
	end "$dir"
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$dir"
}

command_of "$@"
