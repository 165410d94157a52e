#!/bin/bash
# The images of the action proxies, built from this machine's interpreters into the engine of
# DOCKER_HOST. Their tag is a digest of their sources, so that they are built only once.
. "$(dirname "$0")/lib.sh"

sources=$(cd "$here/../.." && pwd)/docker/runtimes
names=(python3 nodejs native)

# digest of all that goes into an image: our sources and the interpreters.
digest() {
	{
		(cd "$sources" && find . -type f ! -name '*_test.go' ! -name '*.md' | LC_ALL=C sort | xargs sha256sum)
		python3 --version
		node --version
		go version
	} 2>&1 | sha256sum | cut -c1-12
}

install() {
	need docker tar
	docker version >/dev/null 2>&1 || fail "no Docker engine answers at ${DOCKER_HOST:-its default address}"
	local tag name
	tag=$(digest)
	for name in "${names[@]}"; do
		docker image inspect "gpuwhisk/action-$name:$tag" >/dev/null 2>&1 && continue
		TAG=$tag "$sources/build.sh" "$name" >&2 || fail "build of the image gpuwhisk/action-$name"
	done
}

start() {
	install
	env
}

env() {
	local tag name
	tag=$(digest)
	for name in "${names[@]}"; do
		docker image inspect "gpuwhisk/action-$name:$tag" >/dev/null 2>&1 ||
			fail "no image gpuwhisk/action-$name:$tag is there"
	done
	echo "GPUWHISK_TEST_IMAGES_TAG=$tag"
}

stop() {
	local tag name
	tag=$(digest)
	for name in "${names[@]}"; do
		docker rmi -f "gpuwhisk/action-$name:$tag" >/dev/null 2>&1 || true
	done
}

command_of "$@"
