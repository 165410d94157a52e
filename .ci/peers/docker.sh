#!/bin/bash
# A Docker engine: the one of this machine where it answers, else Debian's
# docker.io with a daemon of our own, started by hand as root with its own root,
# socket and pid file, so that it touches no other engine's state.
. "$(dirname "$0")/lib.sh"

dir=$peers/docker
# A path of a unix socket holds 107 bytes; a deep checkout would be over that.
sum=$(echo -n "$dir" | cksum | cut -d' ' -f1)
run=${TMPDIR:-/tmp}/gpuwhisk-docker-$sum
# The daemon's own network: two daemons that share docker0 hand out the same
# addresses.
bridge=gw$sum
options=() # further ones of dockerd

answers() { curl -fsS -m 5 --unix-socket "$1" http://docker/_ping >/dev/null 2>&1; }

# working prints the address of an engine that already answers here.
working() {
	local sock=${DOCKER_HOST:-unix:///var/run/docker.sock}
	[[ $sock == unix://* ]] && answers "${sock#unix://}" && echo "$sock"
}

install() {
	if working >/dev/null; then return 0; fi
	if command -v dockerd >/dev/null && command -v iptables >/dev/null; then return 0; fi
	[[ $(id -u) == 0 ]] || fail "no Docker engine answers, and only root can install one"
	debian docker.io iptables iproute2 curl
}

# launch starts dockerd with a storage driver and reports whether it came up.
launch() {
	local driver=$1
	rm -f "$run/docker.pid"
	# A stale containerd of an earlier daemon would keep its socket.
	daemon "$dir" dockerd --host "unix://$run/docker.sock" \
		--data-root "$dir/root" --exec-root "$run/exec" \
		--pidfile "$run/docker.pid" --storage-driver "$driver" \
		--group root --log-level warn "${options[@]}"
	await "$dir" 180 answers "$run/docker.sock"
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

# unused NET reports whether no address of this machine lies in a network and no
# route leads to it or through a part of it. A default route leads anywhere.
unused() {
	[[ -z $(ip -4 -o addr show to "$1"; ip -4 route show table all root "$1"
		ip -4 route show table all match "$1" | grep -v '^default') ]]
}

# own_network makes the bridge on a network that is not used here. The choice holds
# a lock, for two scripts that choose at once would choose the same. The
# list begins where engines, which take the lowest free, come last.
own_network() {
	local net
	ip link delete "$bridge" 2>/dev/null || true # of a daemon that was cut off
	exec 7</tmp
	flock 7
	for net in 172.{31..18}.254 192.168.{254..240} 10.{254..240}.254; do
		unused "$net.0/24" || continue
		ip link add name "$bridge" type bridge &&
			ip addr add "$net.1/24" brd + dev "$bridge" &&
			ip link set "$bridge" up && return 0
		break
	done
	ip link delete "$bridge" 2>/dev/null || true
	return 1
}

# networking chooses the part of this machine's network that dockerd may use. It deletes
# dockerd's stored network state, which would put the old addresses on the new bridge.
networking() {
	rm -rf "$dir/root/network"
	if ! legacy_tables; then
		say "iptables has no nat table here: containers have no way out"
		options+=(--iptables=false)
	fi
	# Its lock ends with the subshell.
	if command -v ip >/dev/null && (own_network) >&2; then
		options+=(--bridge "$bridge")
	else
		say "no network of our own can be made: containers share docker0 with any other daemon"
	fi
}

# forget_network takes away the bridge and the rules that dockerd leaves about
# it.
forget_network() {
	local table rule
	[[ ! -d $dir/bin ]] || PATH=$dir/bin:$PATH
	for table in nat filter; do
		iptables -t "$table" -S 2>/dev/null | grep -w -- "$bridge" | while read -ra rule; do
			iptables -t "$table" -D "${rule[@]:1}" || true
		done || true
	done
	ip link delete "$bridge" 2>/dev/null || true
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
	networking
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
	forget_network
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
		# The bridges of networks would stay behind.
		DOCKER_HOST=unix://$run/docker.sock docker network prune --force >/dev/null 2>&1 || true
	fi
	end "$dir"
	forget_network
	# A daemon that had to be killed leaves its networks mounted.
	umount "$run"/exec/netns/* 2>/dev/null || true
	rm -rf "$run"
}

command_of "$@"
