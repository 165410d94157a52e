#!/bin/bash
# A containerd of our own, started by hand as root with its own root, state and
# socket, so that it touches no other daemon's containers. The programs are Debian's.
# GPUWHISK_CONTAINERD_VERSION, such as 2.4.2, builds that version from its Go module and
# starts it beside Debian's; runc and the CNI plugins stay Debian's.
. "$(dirname "$0")/lib.sh"

version=${GPUWHISK_CONTAINERD_VERSION:-}
dir=$peers/containerd${version:+-$version}
programs=$peers/containerd-programs-$version
# A path of a unix socket holds 107 bytes; a deep checkout would be over that.
sum=$(echo -n "$dir" | cksum | cut -d' ' -f1)
run=${TMPDIR:-/tmp}/gpuwhisk-containerd-$sum
sock=$run/containerd.sock
[[ ! $version ]] || PATH=$programs:$PATH

# build compiles the programs of containerd into a folder.
build() {
	local module=github.com/containerd/containerd/v2/cmd
	GOFLAGS='' CGO_ENABLED=0 GOBIN=$1 retry 3 go install -trimpath -ldflags='-s -w' \
		$module/{containerd,containerd-shim-runc-v2,ctr}@v"$version"
}

plugins() { [[ -x /usr/lib/cni/bridge || -x /opt/cni/bin/bridge ]]; }

install() {
	local c
	if [[ $version ]]; then
		need go
		once "$programs" build || fail "build containerd $version from its Go module"
	fi
	for c in containerd ctr containerd-shim-runc-v2 runc iptables ip; do
		command -v $c >/dev/null || break
		c=
	done
	[[ -z $c && -x /usr/bin/tini-static ]] && plugins && return 0
	debian containerd runc containernetworking-plugins iptables iproute2 tini
}

answers() { ctr --connect-timeout 2s -a "$sock" version >/dev/null 2>&1; }

start() {
	if alive "$dir" && answers; then
		env
		return 0
	fi
	install
	need containerd ctr runc
	[[ $(id -u) == 0 ]] || fail "only root can start containerd"
	mkdir -p "$dir" "$run"
	# The CRI plugin would want a network configuration of the machine.
	cat >"$dir/config.toml" <<-END
		version = 2
		root = "$dir/root"
		state = "$run/state"
		disabled_plugins = ["io.containerd.grpc.v1.cri"]
		[grpc]
		  address = "$sock"
	END
	daemon "$dir" containerd --config "$dir/config.toml" --log-level warn
	await "$dir" 180 answers || {
		end "$dir"
		tail_of "$dir/log"
		fail "containerd does not start; its log is $dir/log"
	}
	env
}

env() {
	alive "$dir" || fail "no containerd of ours is running"
	echo "GPUWHISK_TEST_CONTAINERD=$sock"
}

# forget_containers ends the containers that tests have left, because a container outlives its
# daemon.
forget_containers() {
	local ns id
	for ns in $(ctr -a "$sock" namespaces ls -q); do
		for id in $(ctr -a "$sock" -n "$ns" containers ls -q); do
			ctr -a "$sock" -n "$ns" tasks rm -f "$id" >/dev/null 2>&1 || true
			ctr -a "$sock" -n "$ns" containers rm "$id" >/dev/null 2>&1 || true
		done
	done
}

stop() {
	[[ -d $dir ]] || return 0
	if alive "$dir" && answers; then forget_containers >&2; fi
	end "$dir"
	awk -v at="$run/state/" 'index($2, at) == 1 { print $2 }' /proc/mounts | xargs -r umount 2>/dev/null || true
	rm -rf "$run"
}

command_of "$@"
