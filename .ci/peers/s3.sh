#!/bin/bash
# s3rver, an S3 server from npm, for tests that start one
# of their own. No daemon: start only installs.
. "$(dirname "$0")/lib.sh"

version=3.7.1
tree=$peers/s3rver-$version

fetch() {
	retry 4 npm install --prefix "$1" --no-audit --no-fund --loglevel=error \
		--ignore-scripts "s3rver@$version"
}

install() {
	need node npm
	once "$tree" fetch || fail "download of s3rver $version by npm"
}

start() {
	install
	env
}

env() {
	[[ -d $tree ]] || fail "s3rver is not installed"
	echo "GPUWHISK_TEST_S3=$tree"
}

stop() { :; }

command_of "$@"
