# rollback NAME ID RESTART stock|ours yes|no: whatever the step at which an exchange stopped,
# the previous invoker (the original or the previous unit) serves again.
name=$1 id=$2 restart=$3 before=$4 begun=$5
unit=gpuwhisk@$id.service kept=/var/cache/gpuwhisk/before-$id
exists() { docker container inspect "$1" >/dev/null 2>&1; }
if [ "$before" = stock ]; then
	[ "$begun" = no ] || systemctl --quiet disable --now "$unit"
	if ! exists "$name"; then docker rename "$name-stock" "$name"; fi
	docker update --restart="$restart" "$name" >/dev/null
	docker start "$name" >/dev/null
	exit
fi
if [ -d "$kept" ]; then
	rm -rf "/etc/gpuwhisk/invoker$id.credentials" "/etc/systemd/system/$unit.d"
	# By a new file each, for the program may be running.
	cp -a --remove-destination "$kept/." /
	systemctl daemon-reload
fi
if [ "$begun" = yes ]; then
	systemctl stop "$unit"
	if exists "$name"; then # the way back failed: the original waits for the next try
		docker rename "$name" "$name-stock"
	fi
	if exists "$name-stock"; then
		docker update --restart=no "$name-stock" >/dev/null
		docker stop --time 1 "$name-stock" >/dev/null
	fi
fi
systemctl --quiet enable "$unit"
systemctl start --no-block "$unit"
