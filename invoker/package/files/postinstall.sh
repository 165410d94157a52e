#!/bin/sh
# deb: configure [OLD VERSION]; rpm: 1 (installed) or 2 (upgraded).
set -e
[ -d /run/systemd/system ] || exit 0
systemd-tmpfiles --create gpuwhisk.conf || true
systemctl daemon-reload || true
# Running invokers are restarted one after the other. Each finishes its work, and its
# successor takes the activations that wait in Kafka. With GPUWHISK_NO_RESTART they are left
# running.
[ -z "${GPUWHISK_NO_RESTART:-}" ] || exit 0
if [ "$1" = 2 ] || { [ "$1" = configure ] && [ -n "${2:-}" ]; }; then
	for unit in $(systemctl list-units --plain --no-legend --state=active,activating 'gpuwhisk@*.service' | cut -d' ' -f1); do
		# An invoker that waits for Kafka must not hold up the installation.
		timeout 120 systemctl restart "$unit" || true
	done
fi
