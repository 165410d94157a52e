#!/usr/bin/env bash
# Builds the invoker's image from this machine's own files, without pulling
# anything: the program, the shim, the C library that NVML needs, a static
# busybox, certificates and time zones.
#
#   build.sh [amd64|arm64]     this machine's processor without an argument
#
# IMAGE      name and tag (default gpuwhisk/invoker:VERSION, and :latest)
# VERSION    version on the labels (default: as git describes it)
# DOCKER     the docker command; DOCKER_HOST is heeded by it
# PROGRAMS   a folder with gpuwhisk, gpuwhisk-log and libgpuwhisk.so that are built already
# FOREIGN    a folder with Debian's packages for the other processor (default
#            build/debian-arm64, filled by apt-get where it is empty)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
DOCKER=${DOCKER:-docker}
own=$(go env GOHOSTARCH)
arch=${1:-$own}
VERSION=${VERSION:-$(git -C "$top" describe --tags --always --dirty 2>/dev/null || echo dev)}
export VERSION
# Debian's packages of which the image has files. All but the first two are for containerd:
# the CNI plugins, iptables with its libraries, the first process of containers, and the
# program that loads their AppArmor profile.
debian=(libc6 busybox-static containernetworking-plugins iptables libxtables12 libmnl0 libnftnl11 libip4tc2 libip6tc2 tini apparmor)
named=${IMAGE:-}
IMAGE=${IMAGE:-gpuwhisk/invoker:$VERSION}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

case $arch in
amd64) gnu=x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2 ;;
arm64) gnu=aarch64-linux-gnu loader=lib/ld-linux-aarch64.so.1 ;;
*) fail "no processor called $arch: amd64 or arm64" ;;
esac

# packages DIR NAME... downloads Debian's packages for the other processor, with
# lists of its own: this machine's need not have that processor.
packages() {
	local dir=$1 i
	shift
	mkdir -p "$dir" "$work"/apt/{lists,cache}/partial
	local apt=(apt-get -q -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o "Dir::State::Lists=$work/apt/lists"
		-o Dir::State::status=/dev/null -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root)
	for i in 1 2 3; do
		"${apt[@]}" update >&2 && (cd "$dir" && "${apt[@]}" download "$@" >&2) && return 0
		sleep $((i * 3))
	done
	return 1
}

# from is where the C library and busybox are taken from.
from=/
if [[ $arch != "$own" ]]; then
	from=$work/foreign
	foreign=${FOREIGN:-$top/build/debian-$arch}
	mkdir -p "$from" "$foreign"
	for name in "${debian[@]}"; do
		find_package() { find "$foreign" -name "${name}_*_$arch.deb" 2>/dev/null | head -n 1; }
		package=$(find_package)
		if [[ ! $package ]] && command -v apt-get >/dev/null; then
			packages "$foreign" "$name" || true
			package=$(find_package)
		fi
		[[ $package ]] || fail "no ${name}_*_$arch.deb in $foreign: on a Debian with that processor, apt-get download $name"
		dpkg-deb -x "$package" "$from"
	done
fi
[[ -x $from/bin/busybox ]] || fail "no /bin/busybox; on Debian: apt-get install busybox-static"
! ldd "$from/bin/busybox" >/dev/null 2>&1 || fail "/bin/busybox is not static; on Debian: apt-get install busybox-static"
[[ -s /etc/ssl/certs/ca-certificates.crt ]] || fail "no certificates; on Debian: apt-get install ca-certificates"
[[ -d /usr/share/zoneinfo/Etc ]] || fail "no time zones; on Debian: apt-get install tzdata"

programs=${PROGRAMS:-$work/programs}
[[ ${PROGRAMS:-} ]] || "$top/invoker/package/programs.sh" "$arch" "$programs"

root=$work/root
mkdir -p "$root"/{bin,etc/ssl/certs,lib/$gnu,"${loader%/*}",usr/bin,usr/lib/gpuwhisk,usr/share/zoneinfo,tmp,root,proc,sys,dev,run,var/lib,logs,conf,containers}
chmod 1777 "$root/tmp"
ln -s ../run "$root/var/run"

cp "$from/bin/busybox" "$root/bin/"
# Its tools by name: what init.sh needs, and a person who looks inside. No server, nothing that changes a host, and nothing that looks up
# names, which a static program cannot do everywhere.
for tool in sh ash awk basename cat chmod cp cut date df dirname du env expr false find free grep head hostname id ip \
	kill less ln ls mkdir mktemp mount more mv od ps pwd readlink rm rmdir sed sha256sum sleep sort \
	stat tail tar tee test time timeout top touch tr true uname uniq vi wc which xargs; do
	ln -s busybox "$root/bin/$tool"
done
# OpenWhisk's chart starts by /bin/bash what any shell understands.
printf '#!/bin/sh\nexec /bin/sh "$@"\n' >"$root/bin/bash"
chmod 755 "$root/bin/bash"

# The C library: what the program is linked with, and what NVML's library needs of
# it.
for lib in libc.so.6 libdl.so.2 libpthread.so.0 libm.so.6 librt.so.1 libresolv.so.2; do
	file=$(find -L "$from/lib/$gnu" "$from/usr/lib/$gnu" -maxdepth 1 -name "$lib" 2>/dev/null | head -n 1)
	[[ $file ]] || fail "no $lib for $arch in $from"
	cp -L "$file" "$root/lib/$gnu/"
done
cp -L "$(find -L "$from/lib/$gnu" "$from/usr/lib/$gnu" -maxdepth 1 -name "${loader##*/}" | head -n 1)" "$root/$loader"
# Where NVIDIA's container runtime, or a person, puts the driver's libraries.
printf '%s\n' /lib/$gnu /usr/lib/$gnu /usr/lib64 /usr/local/nvidia/lib64 >"$root/etc/ld.so.conf"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false' >"$root/etc/passwd"
echo 'root:x:0:
nogroup:x:65534:' >"$root/etc/group"

cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
tar -C /usr/share/zoneinfo --exclude=./posix --exclude=./right --exclude='./*.zi' --exclude='./*.tab' --exclude=./leap* -cf - . |
	tar -C "$root/usr/share/zoneinfo" -xf -

# For the network of action containers on containerd. Docker brings its own.
mkdir -p "$root/usr/lib/cni" "$root/usr/lib/$gnu/xtables"
for plugin in bridge host-local loopback; do
	cp "$from/usr/lib/cni/$plugin" "$root/usr/lib/cni/" || fail "no CNI plugins; on Debian: apt-get install containernetworking-plugins"
done
for program in usr/sbin/xtables-nft-multi usr/sbin/xtables-legacy-multi usr/bin/tini-static sbin/apparmor_parser; do
	cp "$from/$program" "$root/usr/bin/" || fail "no /$program; on Debian: apt-get install iptables tini apparmor"
done
for lib in libxtables.so.12 libmnl.so.0 libnftnl.so.11 libip4tc.so.2 libip6tc.so.2; do
	cp -L "$from/usr/lib/$gnu/$lib" "$root/lib/$gnu/"
done
cp "$from/usr/lib/$gnu/xtables/"lib{xt,ipt}_*.so "$root/usr/lib/$gnu/xtables/"
cp "$here/iptables.sh" "$root/usr/bin/iptables"

cp "$programs/gpuwhisk" "$root/usr/bin/gpuwhisk"
cp "$programs/"{gpuwhisk-log,libgpuwhisk.so} "$root/usr/lib/gpuwhisk/"
cp "$here/init.sh" "$root/init.sh"
cp "$here/entrypoint.sh" "$root/usr/bin/entrypoint"
cp "$top/LICENSE" "$top/NOTICE" "$root/usr/lib/gpuwhisk/"
"$top/invoker/package/licenses.sh" >"$root/usr/lib/gpuwhisk/third-party-licenses.txt"

# What is Debian's comes with Debian's statement of its licence, and the texts that it
# refers to.
statement() {
	install -D -m 644 "$1/usr/share/doc/$2/copyright" "$root/usr/share/doc/$2/copyright" ||
		fail "no licence of $2; on Debian: apt-get install --reinstall $2"
}
for package in "${debian[@]}"; do statement "$from" "$package"; done
for package in ca-certificates tzdata; do statement / "$package"; done
mkdir -p "$root/usr/share/common-licenses"
cp /usr/share/common-licenses/{Apache-2.0,GPL-2,LGPL-2.1} "$root/usr/share/common-licenses/"
chmod 755 "$root/init.sh" "$root/usr/bin/"{entrypoint,gpuwhisk,iptables}

# The image is put together as an archive that any engine loads: `docker import`
# of older engines calls every image one for its own processor.
tar -C "$root" --sort=name --numeric-owner --owner=0 --group=0 --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf "$work/layer.tar" .
label=org.opencontainers.image
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
second=1000000000
cat >"$work/config.json" <<END
{
  "architecture": "$arch", "os": "linux", "created": "$created",
  "config": {
    "Env": ["PATH=/usr/bin:/bin", "$(sed -n 's/^Environment=\(GODEBUG=.*\)/\1/p' "$top/invoker/package/files/gpuwhisk@.service")", "LD_LIBRARY_PATH=/usr/lib/$gnu:/usr/lib64:/usr/local/nvidia/lib64"],
    "ExposedPorts": {"8080/tcp": {}}, "WorkingDir": "/",
    "Entrypoint": ["/usr/bin/entrypoint"], "Cmd": ["--help"],
    "Healthcheck": {"Test": ["CMD", "/usr/bin/gpuwhisk", "ping"], "Interval": $((10 * second)), "Timeout": $((5 * second)),
      "StartPeriod": $((60 * second)), "Retries": 3},
    "Labels": {
      "$label.title": "gpuwhisk/invoker", "$label.description": "OpenWhisk invoker with fair, warm GPU functions",
      "$label.version": "$VERSION", "$label.licenses": "Apache-2.0",
      "$label.revision": "$(git -C "$top" rev-parse HEAD 2>/dev/null || echo unknown)",
      "$label.source": "https://github.com/gpuwhisk/gpuwhisk"
    }
  },
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)"]},
  "history": [{"created": "$created", "created_by": "docker/invoker/build.sh $arch"}]
}
END
echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$IMAGE\"], \"Layers\": [\"layer.tar\"]}]" >"$work/manifest.json"
tar -C "$work" --sort=name --numeric-owner --owner=0 --group=0 --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf "$work/image.tar" manifest.json config.json layer.tar
"$DOCKER" load --quiet --input "$work/image.tar" >/dev/null
[[ $named ]] || "$DOCKER" tag "$IMAGE" "${IMAGE%:*}:latest"
size=$("$DOCKER" image inspect --format '{{.Size}}' "$IMAGE")
most=90000000
((size <= most)) || fail "$IMAGE has $size bytes, more than $most"
echo "$IMAGE linux/$arch, $((size / 1000000)) MB"
