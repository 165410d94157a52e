#!/bin/sh
# deb: remove, purge or upgrade; rpm: 0 or 1. State goes with a purge alone.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
case ${1:-} in
purge)
	rm -rf /var/lib/gpuwhisk /etc/gpuwhisk
	;;
esac
