#!/bin/sh
# What OpenWhisk's role and chart start in an invoker's container, with the
# invoker's arguments.
#
# GPU containers get the shim library and a socket directory mounted, and the
# Docker daemon looks for both on the host. Where /var/lib/gpuwhisk and
# /var/run/gpuwhisk of the host are mounted here under the same names, the
# library is put there for it.
set -eu

shared=/var/lib/gpuwhisk
if [ -z "${CONFIG_whisk_gpu_shim_library:-}" ] && grep -q " $shared " /proc/self/mountinfo; then
	own=/usr/lib/gpuwhisk/libgpuwhisk.so
	# Under a name of its contents: containers of an invoker before this one may
	# have the old library mounted.
	name=$shared/lib/$(sha256sum "$own" | cut -c1-16)/libgpuwhisk.so
	if [ ! -e "$name" ]; then
		mkdir -p "${name%/*}"
		cp "$own" "$name.$$"
		mv "$name.$$" "$name"
	fi
	export CONFIG_whisk_gpu_shim_library="$name"
fi

exec /usr/bin/gpuwhisk invoker "$@"
