#!/bin/sh
# deb: remove or upgrade; rpm: 0 (removed) or 1 (upgraded).
set -e
case ${1:-} in remove | 0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
for unit in $(systemctl list-units --plain --no-legend --all 'gpuwhisk@*.service' | cut -d' ' -f1); do
	systemctl disable --now "$unit" || true
done
# Invokers leave warm containers to the next process; none is to come.
gpuwhisk clean --all || true
