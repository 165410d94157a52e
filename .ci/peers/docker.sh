#!/bin/bash
# A Docker engine: the one of this machine where it answers, else Debian's
# docker.io with a daemon of our own, started by hand as root with its own root,
# socket and pid file, so that it touches no other engine's state.
. "$(dirname "$0")/lib.sh"

dir=$peers/docker
# A path of a unix socket holds 107 bytes; a deep checkout would be over that.
run=${TMPDIR:-/tmp}/gpuwhisk-docker-$(echo -n "$dir" | cksum | cut -d' ' -f1)

answers() { curl -fsS -m 5 --unix-socket "$1" http://docker/_ping >/dev/null 2>&1; }

# working prints the address of an engine that already answers here.
working() {
	local sock=${DOCKER_HOST:-unix:///var/run/docker.sock}
	[[ $sock == unix://* ]] && answers "${sock#unix://}" && echo "$sock"
}

# add_packages installs the engine. Debian's package would start a daemon of
# its own on the default socket; policy-rc.d forbids that for the while.
add_packages() {
	local policy=/usr/sbin/policy-rc.d mine=
	if [[ ! -e $policy ]]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		mine=$policy
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		install --no-install-recommends docker.io iptables curl
	local rc=$?
	[[ -z $mine ]] || rm -f "$mine"
	return $rc
}

install() {
	if working >/dev/null; then return 0; fi
	if command -v dockerd >/dev/null && command -v iptables >/dev/null; then return 0; fi
	[[ $(id -u) == 0 ]] || fail "no Docker engine answers, and only root can install one"
	need apt-get
	retry 3 apt-get -q update || fail "apt-get update"
	retry 3 add_packages || fail "apt-get install docker.io"
}

# launch starts dockerd with a storage driver and says whether it came up.
launch() {
	local driver=$1
	rm -f "$run/docker.pid"
	# A stale containerd of an earlier daemon would keep its socket.
	daemon "$dir" dockerd --host "unix://$run/docker.sock" \
		--data-root "$dir/root" --exec-root "$run/exec" \
		--pidfile "$run/docker.pid" --storage-driver "$driver" \
		--group root --log-level warn
	await "$dir" 60 answers "$run/docker.sock"
}

# legacy_tables turns iptables to its older back end, which works on kernels
# that were built without nf_tables.
legacy_tables() {
	iptables -t nat -L -n >/dev/null 2>&1 && return 0
	mkdir -p "$dir/bin"
	local t
	for t in iptables ip6tables; do
		ln -sf "$(command -v $t-legacy || command -v $t)" "$dir/bin/$t"
	done
	PATH=$dir/bin:$PATH
	iptables -t nat -L -n >/dev/null 2>&1
}

start() {
	local found driver
	if found=$(working) && [[ $found != unix://$run/docker.sock ]]; then
		echo "DOCKER_HOST=$found"
		return 0
	fi
	if alive "$dir" && answers "$run/docker.sock"; then
		env
		return 0
	fi
	install
	need curl dockerd containerd runc
	[[ $(id -u) == 0 ]] || fail "no Docker engine answers, and only root can start dockerd"
	mkdir -p "$dir" "$run"
	legacy_tables || say "iptables has no nat table here: containers may lack a way out"
	for driver in overlay2 vfs; do
		if launch "$driver"; then
			env
			return 0
		fi
		end "$dir"
		say "dockerd did not come up with storage driver $driver"
		tail_of "$dir/log"
		rm -rf "$dir/root"
	done
	fail "dockerd does not start; its log is $dir/log"
}

env() {
	alive "$dir" || fail "no Docker daemon of ours is running"
	echo "DOCKER_HOST=unix://$run/docker.sock"
}

stop() {
	[[ -d $dir ]] || return 0
	local id
	if alive "$dir" && answers "$run/docker.sock"; then
		for id in $(DOCKER_HOST=unix://$run/docker.sock docker ps -aq); do
			DOCKER_HOST=unix://$run/docker.sock docker rm -f "$id" >/dev/null 2>&1 || true
		done
	fi
	end "$dir"
	rm -rf "$run"
}

command_of "$@"
