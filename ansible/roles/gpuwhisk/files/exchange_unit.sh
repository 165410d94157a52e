# exchange NAME ID stock|ours SECONDS WAIT: the original container, or the unit
# of before, is replaced by the unit as it is now on disk. All in one, since no
# invoker serves between the stop and the start; so the probe is ready to send before
# anything stops.
name=$1 id=$2 kind=$3 timeout=$4 wait=$5
unit=gpuwhisk@$id.service
said=$(mktemp)
gpuwhisk probe --held --id "$id" --wait "${wait}s" >"$said" 2>&1 &
probe=$!
trap 'kill "$probe" 2>/dev/null || true; cat "$said" >&2; rm -f "$said"' EXIT
until grep -q '^ready' "$said"; do
	kill -0 "$probe" 2>/dev/null
	sleep 0.2
done
systemctl daemon-reload
if [ "$kind" = stock ]; then
	docker rm -f "$name-stock" >/dev/null 2>&1 || true
	docker update --restart=no "$name" >/dev/null
	docker stop --time "$timeout" "$name" >/dev/null
else
	systemctl stop "$unit"
fi
systemctl start --no-block "$unit"
kill -USR1 "$probe"
wait "$probe"
systemctl --quiet enable "$unit"
[ "$kind" = ours ] || docker rename "$name" "$name-stock"
