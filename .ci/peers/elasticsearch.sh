#!/bin/bash
# Elasticsearch, in the version that OpenWhisk deploys, by its own artifacts from
# Maven, for tests that start one of their own. No daemon: start only installs.
. "$(dirname "$0")/lib.sh"

version=6.7.2
libs=$peers/elasticsearch-$version

# The server alone has no HTTP; the plugin beside it has. Its log goes to log4j,
# which it names as optional.
fetch() {
	maven "$1" "org.elasticsearch:elasticsearch:$version" "org.elasticsearch.plugin:transport-netty4-client:$version" \
		org.apache.logging.log4j:log4j-core:2.11.1 &&
		javac -cp "$1/*" -d "$1" "$here/java/Elasticsearch.java" >&2
}

install() {
	command -v javac >/dev/null || debian default-jdk-headless
	need java javac mvn
	once "$libs" fetch || fail "download of Elasticsearch $version by mvn"
}

start() {
	install
	env
}

env() {
	[[ -d $libs ]] || fail "Elasticsearch is not installed"
	echo "GPUWHISK_TEST_ELASTICSEARCH=$libs"
}

stop() { :; }

command_of "$@"
