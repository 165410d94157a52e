#!/bin/bash
# Couchbase's own mock of its server, from Maven, for tests that start one of
# their own. No daemon: start only installs.
. "$(dirname "$0")/lib.sh"

version=1.5.27
libs=$peers/couchbase-mock-$version

fetch() { maven "$1" "com.couchbase.mock:CouchbaseMock:$version"; }

install() {
	need java mvn
	once "$libs" fetch || fail "download of CouchbaseMock $version by mvn"
}

start() {
	install
	env
}

env() {
	[[ -d $libs ]] || fail "CouchbaseMock is not installed"
	echo "GPUWHISK_TEST_COUCHBASE=$libs"
}

stop() { :; }

command_of "$@"
