#!/bin/sh
# deb: configure [OLD VERSION]; rpm: 1 (installed) or 2 (upgraded).
set -e
[ -d /run/systemd/system ] || exit 0
systemd-tmpfiles --create gpuwhisk.conf || true
systemctl daemon-reload || true
# Invokers that run are restarted one after the other: each finishes its work,
# and what waits for it in Kafka is taken by its successor.
if [ "$1" = 2 ] || { [ "$1" = configure ] && [ -n "${2:-}" ]; }; then
	for unit in $(systemctl list-units --plain --no-legend --state=active 'gpuwhisk@*.service' | cut -d' ' -f1); do
		systemctl restart "$unit" || true
	done
fi
