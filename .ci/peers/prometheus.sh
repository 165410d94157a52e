#!/bin/bash
# Debian's Prometheus with promtool, for tests that start one of their own with
# their own targets.
. "$(dirname "$0")/lib.sh"

install() {
	if command -v prometheus >/dev/null && command -v promtool >/dev/null; then return 0; fi
	debian prometheus
}

start() {
	install
	env
}

env() {
	command -v prometheus >/dev/null && command -v promtool >/dev/null || fail "prometheus is not installed"
	echo "GPUWHISK_TEST_PROMETHEUS=$(command -v prometheus)"
	echo "GPUWHISK_TEST_PROMTOOL=$(command -v promtool)"
}

stop() { :; }

command_of "$@"
