#!/bin/bash
# An etcd server of one member, from Debian, on free ports of the loopback. OpenWhisk's
# scheduler mode stores the invokers' reports there. The system's own service is not touched.
. "$(dirname "$0")/lib.sh"

# A test may run one of its own beside the shared one, to restart it.
dir=${GPUWHISK_ETCD_DIR:-$peers/etcd}
# Containers reach it at another address of this machine than the loopback.
host=${GPUWHISK_ETCD_HOST:-127.0.0.1}

install() {
	command -v etcd >/dev/null || debian etcd-server
	need etcd
}

# configure chooses ports, which a restart with the same data keeps.
configure() {
	[[ ! -f $dir/port ]] || return 0
	local port peer
	port=$(free_port)
	until peer=$(free_port) && [[ $peer != "$port" ]]; do :; done
	echo "$peer" >"$dir/port.peer"
	echo "$port" >"$dir/port"
}

# answers asks whether the member serves, which comes after it listens.
answers() {
	local reply
	exec 3<>"/dev/tcp/$host/$(cat "$dir/port")" || return 1
	printf 'GET /health HTTP/1.0\r\n\r\n' >&3
	reply=$(timeout 5 cat <&3 || true)
	exec 3>&-
	[[ $reply == *'"health":"true"'* ]]
}

start() {
	if alive "$dir"; then
		env
		return 0
	fi
	install
	fresh "$dir"
	configure
	local client peer
	client=http://$host:$(cat "$dir/port")
	peer=http://127.0.0.1:$(cat "$dir/port.peer")
	# Tests do not outlive a loss of power: their writes need not reach the disk.
	daemon "$dir" etcd --name test --data-dir "$dir/data" --unsafe-no-fsync \
		--listen-client-urls "$client" --advertise-client-urls "$client" \
		--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "test=$peer"
	if ! await "$dir" 180 answers; then
		tail_of "$dir/log"
		end "$dir"
		fail "etcd does not start; its log is $dir/log"
	fi
	env
}

env() {
	alive "$dir" || fail "no etcd of ours is running"
	echo "GPUWHISK_TEST_ETCD=$host:$(cat "$dir/port")"
}

# stop also forgets the data, unless GPUWHISK_KEEP=1 asks for a restart.
stop() {
	end "$dir"
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$dir"
}

command_of "$@"
