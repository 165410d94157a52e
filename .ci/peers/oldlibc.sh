#!/bin/bash
# Images with C libraries that this machine does not have, for the engine that
# DOCKER_HOST names: Ubuntu 18.04's glibc 2.27 with its Python 3.6 and the Python
# proxy, and musl with a program that is linked with it behind the executables'
# proxy. And the shim with its fake driver for glibc 2.17, which zig cc builds.
# No daemon: start only installs.
. "$(dirname "$0")/lib.sh"

sources=$(cd "$here/../.." && pwd)
# An invoker of these tests takes images with a registry of this name for its own.
old=gpuwhisk-test.invalid/glibc:2.27 musl=gpuwhisk-test.invalid/musl:1
dir=$peers/oldlibc-1

# fetch unpacks the packages alone: nothing of them has to run here.
fetch() {
	local name
	retry 3 debootstrap --foreign --variant=minbase --no-check-gpg --include=python3-minimal,libpython3-stdlib \
		bionic "$1/all" http://archive.ubuntu.com/ubuntu || return 1
	mkdir "$1/root"
	for name in libc6 libgcc1 dash python3-minimal python3.6-minimal libpython3.6-minimal libpython3.6-stdlib \
		libexpat1 zlib1g libffi6 libbz2-1.0 liblzma5 libmpdec2 libssl1.1 libuuid1; do
		dpkg-deb -x "$1/all/var/cache/apt/archives/${name}_"*.deb "$1/root" || return 1
	done
	rm -rf "$1/all"
	printf 'root:x:0:0:root:/root:/bin/sh\n' >"$1/root/etc/passwd"
	mkdir -p "$1/root/tmp" "$1/root/proxy"
}

# shim builds the library and the fake driver, always: their source changes.
shim() {
	local zig
	zig=$("$sources/.ci/zig") || fail "zig cannot be installed"
	make -s -C "$sources/shim" CC="$zig -m ziglang cc -target $(uname -m)-linux-gnu.2.17" OUT="$dir/shim" \
		"$dir/shim/libgpuwhisk.so" "$dir/shim/fake12/libcuda.so.1" >&2 || fail "build of the shim for glibc 2.17"
}

glibc() {
	sed 's/text.isascii() and //' "$sources/docker/runtimes/python3/proxy.py" >"$dir/root/proxy/proxy.py"
	# The proxy is for Python 3.8; 3.6 lacks three things of it.
	cat >"$dir/root/proxy/old.py" <<-'END'
		import io, runpy, socket, sys
		class Text(io.TextIOWrapper):
		    def reconfigure(self, **how):
		        pass
		sys.stdout = Text(sys.stdout.detach(), encoding="utf-8", line_buffering=True)
		sys.stderr = Text(sys.stderr.detach(), encoding="utf-8", line_buffering=True)
		def serve(address, family=socket.AF_INET, backlog=128):
		    s = socket.socket(family)
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		    s.bind(address)
		    s.listen(backlog)
		    return s
		socket.create_server = serve
		runpy.run_path("/proxy/proxy.py", run_name="__main__")
	END
	tar -C "$dir/root" --numeric-owner --owner=0 --group=0 -cf - . |
		docker import --change 'ENTRYPOINT ["/usr/bin/python3", "/proxy/old.py"]' --change 'EXPOSE 8080' \
			--change 'ENV LANG=C.UTF-8 PATH=/usr/bin:/bin' - "$old" >&2 || fail "docker import of $old"
}

musl() {
	local root
	root=$(mktemp -d)
	mkdir -p "$root/lib" "$root/action" "$root/tmp"
	command install -m 755 "/lib/ld-musl-$(uname -m).so.1" "$root/lib/ld-musl-$(uname -m).so.1"
	musl-gcc -O2 -o "$root/action/exec" "$sources/shim/test/musl_action.c" &&
		(cd "$sources" && CGO_ENABLED=0 go build -trimpath -o "$root/gpuwhisk-native" ./docker/runtimes/native/cmd/gpuwhisk-native) &&
		tar -C "$root" --numeric-owner --owner=0 --group=0 -cf - . |
		docker import --change 'ENTRYPOINT ["/gpuwhisk-native"]' --change 'EXPOSE 8080' - "$musl" >&2
	local rc=$?
	rm -rf "$root"
	((rc == 0)) || fail "build of $musl"
}

install() {
	need docker tar make go
	command -v debootstrap >/dev/null || debian debootstrap
	command -v musl-gcc >/dev/null || debian musl-tools
	once "$dir" fetch || fail "debootstrap of Ubuntu 18.04"
	shim
	glibc
	musl
}

start() { install && env; }
env() {
	docker image inspect "$old" "$musl" >/dev/null 2>&1 && [[ -e $dir/shim/fake12/libcuda.so.1 ]] || fail "not installed"
	printf 'GPUWHISK_TEST_OLD_GLIBC=%s\nGPUWHISK_TEST_MUSL=%s\nGPUWHISK_TEST_OLD_SHIM=%s\n' "$old" "$musl" "$dir/shim"
}
stop() { :; }

command_of "$@"
