#!/bin/bash
# The program helm, built from its Go module. It renders the chart for the tests and
# starts no daemon.
. "$(dirname "$0")/lib.sh"

version=3.22.0
dir=$peers/helm-$version

build() {
	GOFLAGS='' CGO_ENABLED=0 GOBIN=$1 retry 3 go install -ldflags='-s -w' helm.sh/helm/v3/cmd/helm@v"$version"
}

install() {
	need go
	once "$dir" build || fail "build helm $version from its Go module"
}

start() {
	install
	env
}

env() {
	[[ -x $dir/helm ]] || fail "helm is not built"
	echo "GPUWHISK_TEST_HELM=$dir/helm"
}

stop() { :; }

command_of "$@"
