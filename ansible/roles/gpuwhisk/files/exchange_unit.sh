# exchange NAME ID stock|ours SECONDS WAIT: the original container, or the unit
# of before, makes room for the unit as it is now on disk. All in one, since
# nobody serves between the stop and the start.
name=$1 id=$2 kind=$3 timeout=$4 wait=$5
unit=gpuwhisk@$id.service
systemctl daemon-reload
if [ "$kind" = stock ]; then
	docker rm -f "$name-stock" >/dev/null 2>&1 || true
	docker update --restart=no "$name" >/dev/null
	docker stop --time "$timeout" "$name" >/dev/null
	systemctl start --no-block "$unit"
else
	systemctl stop "$unit"
	systemctl start --no-block "$unit"
fi
gpuwhisk probe --id "$id" --wait "${wait}s"
systemctl --quiet enable "$unit"
[ "$kind" = ours ] || docker rename "$name" "$name-stock"
