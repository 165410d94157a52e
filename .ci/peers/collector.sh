#!/bin/bash
# The OTLP receiver of OpenTelemetry's Collector, built from its Go modules, for tests that
# start their own receiver and read its output.
. "$(dirname "$0")/lib.sh"

version=0.150.0
dir=$peers/collector-$version

install() { once "$dir" build; }

build() {
	need go
	(cd "$here/collector" && retry 4 go mod download && go build -trimpath -o "$1/collector" .) >&2
}

start() {
	install || fail "the collector could not be built"
	env
}

env() {
	[[ -x $dir/collector ]] || fail "the collector is not built"
	echo "GPUWHISK_TEST_COLLECTOR=$dir/collector"
}

stop() { :; }

command_of "$@"
