#!/usr/bin/env bash
# Builds what is shipped for one processor: the program with NVML in it, the program that
# writes the logs of containers on containerd, and the shim library.
#
#   programs.sh amd64|arm64 DIR      writes DIR/gpuwhisk, DIR/gpuwhisk-log and DIR/libgpuwhisk.so
#
# VERSION   what `gpuwhisk version` prints (default: as git describes it)
# ZIG       command of a zig compiler, for a shim that needs no more than glibc
#           2.17; without it one from PyPI is put into build/ (needs a network
#           once), and where that fails this machine's C compiler is taken
#
# The program for the other processor takes a cross compiler: on Debian,
# gcc-aarch64-linux-gnu and libc6-dev-arm64-cross (or the -amd64 ones), which
# root gets installed.
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)

fail() {
	echo "programs.sh: $*" >&2
	exit 1
}

[[ $# == 2 ]] || fail "usage: programs.sh amd64|arm64 DIR"
arch=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
version=${VERSION:-$(git -C "$top" describe --tags --always --dirty 2>/dev/null || echo dev)}
own=$(go env GOHOSTARCH)

case $arch in
amd64) gnu=x86_64-linux-gnu shim=x86_64 ;;
arm64) gnu=aarch64-linux-gnu shim=arm64 ;;
*) fail "no processor called $arch: amd64 or arm64" ;;
esac

compiler=${CC:-cc}
[[ $arch == "$own" ]] || compiler=$gnu-gcc

# compiler finds the compiler, or installs it as root on Debian.
compiler() {
	local i
	for i in 1 2 3; do
		command -v "$compiler" >/dev/null && return 0
		[[ $(id -u) == 0 && $compiler == *-gcc ]] && command -v apt-get >/dev/null || return 1
		sleep $(((i - 1) * 5))
		apt-get -q update >&2
		DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
			install --no-install-recommends "gcc-${gnu//_/-}" "libc6-dev-$arch-cross" >&2
	done
	command -v "$compiler" >/dev/null
}
compiler || fail "no $compiler; on Debian: apt-get install gcc-${gnu//_/-} libc6-dev-$arch-cross"

# Programs contain no trace of the place or time of the build. -z lazy loads NVML at its first
# use instead of at the start. PGO=off builds faster, without the profile.
(cd "$top" && CGO_ENABLED=1 GOOS=linux GOARCH=$arch CC=$compiler GOFLAGS='' go build -trimpath -buildvcs=false -buildmode=pie \
	-pgo="${PGO:-$top/invoker/cmd/gpuwhisk/invoker.pgo}" \
	-ldflags "-s -w -buildid= -X main.version=$version -extldflags=-Wl,-z,lazy,--build-id=none" \
	-o "$out/gpuwhisk" ./invoker/cmd/gpuwhisk)

# It is static: it runs on the host of containerd, which may have another C library.
(cd "$top" && CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOFLAGS='' go build -trimpath -buildvcs=false \
	-ldflags '-s -w -buildid=' -o "$out/gpuwhisk-log" ./invoker/cmd/gpuwhisk-log)

# zig prints the command of a compiler for old C libraries.
zig() {
	local python
	if [[ -n ${ZIG:-} ]]; then
		echo "$ZIG"
		return
	fi
	python=$("$top/.ci/zig") && echo "$python -m ziglang"
}

if compile=$(zig); then
	make -s -C "$top/shim" ZIG="$compile" CFLAGS=-O2 "../build/shim/$shim/libgpuwhisk.so"
	cp "$top/build/shim/$shim/libgpuwhisk.so" "$out/"
elif [[ $arch == "$own" ]]; then
	echo "programs.sh: no zig: the shim needs this machine's C library or a newer one" >&2
	make -s -C "$top/shim" CFLAGS=-O2
	cp "$top/build/shim/libgpuwhisk.so" "$out/"
	strip "$out/libgpuwhisk.so"
else
	fail "no zig to build the shim for $arch with: python3 -m pip install ziglang, and ZIG='python3 -m ziglang'"
fi
chmod 755 "$out/gpuwhisk" "$out/gpuwhisk-log"
chmod 644 "$out/libgpuwhisk.so"
