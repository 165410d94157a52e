#!/bin/bash
# A server of the CouchDB API that is neither ours nor our client's:
# pouchdb-server from npm, in memory, on a free port of the loopback.
. "$(dirname "$0")/lib.sh"

version=4.2.0
tree=$peers/pouchdb-server-$version
dir=${GPUWHISK_POUCHDB_DIR:-$peers/pouchdb}
# Containers reach it at another address of this machine than the loopback.
host=${GPUWHISK_POUCHDB_HOST:-127.0.0.1}

# fetch leaves out install scripts: they would build or download stores on
# disk, which a server in memory never opens.
fetch() {
	retry 4 npm install --prefix "$1" --no-audit --no-fund --loglevel=error \
		--ignore-scripts "pouchdb-server@$version"
}

install() {
	need node npm
	once "$tree" fetch || fail "download of pouchdb-server $version by npm"
}

answers() { curl -fsS -m 5 "http://$host:$(cat "$dir/port")/" >/dev/null; }

start() {
	if alive "$dir"; then
		env
		return 0
	fi
	install
	need curl
	fresh "$dir"
	mkdir -p "$dir/files"
	[[ -f $dir/port ]] || free_port >"$dir/port"
	# Its configuration file would land in the caller's folder.
	cd "$dir/files"
	daemon "$dir" node "$tree/node_modules/pouchdb-server/bin/pouchdb-server" \
		--in-memory --host "$host" --port "$(cat "$dir/port")" \
		--no-stdout-logs --config "$dir/files/config.json"
	if ! await "$dir" 180 answers; then
		tail_of "$dir/log"
		end "$dir"
		fail "pouchdb-server does not start; its log is $dir/log"
	fi
	env
}

env() {
	alive "$dir" || fail "no pouchdb-server of ours is running"
	echo "GPUWHISK_TEST_COUCHDB=http://$host:$(cat "$dir/port")"
	echo "GPUWHISK_TEST_POUCHDB=$tree" # for tests that start their own
}

stop() {
	end "$dir"
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$dir"
}

command_of "$@"
