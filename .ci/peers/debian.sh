#!/bin/bash
# A plain Debian of this machine's release with systemd, as an image in the Docker engine of
# DOCKER_HOST. Tests install packages into it and use it as a host for Ansible. It is no
# daemon: start only installs.
. "$(dirname "$0")/lib.sh"

suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
dir=$peers/debian-$suite-1
image=gpuwhisk-test/debian:$suite-1

fetch() {
	local i
	for i in 1 2 3; do
		rm -rf "$1/root"
		debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,rpm,python3,python3-apt,python3-requests \
			"$suite" "$1/root" >&2 && break
		((i < 3)) || return 1
		say "try $i of debootstrap failed"
		sleep $((i * 3))
	done
	rm -rf "$1"/root/var/cache/apt/archives/*.deb
	tar -C "$1/root" -czf "$1/root.tar.gz" . && rm -rf "$1/root"
}

install() {
	need docker tar
	docker image inspect "$image" >/dev/null 2>&1 && return 0
	command -v debootstrap >/dev/null || debian debootstrap
	once "$dir" fetch || fail "debootstrap of Debian $suite"
	docker import --change 'CMD ["/sbin/init"]' "$dir/root.tar.gz" "$image" >&2 || fail "docker import of Debian $suite"
}

start() { install && env; }
env() {
	docker image inspect "$image" >/dev/null 2>&1 || fail "no image $image is there"
	echo "GPUWHISK_TEST_DEBIAN=$image"
}
stop() { :; }

command_of "$@"
