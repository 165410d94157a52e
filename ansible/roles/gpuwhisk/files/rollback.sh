# rollback NAME RESTART stock|ours yes|no: whatever the step at which an exchange stopped, the
# previous invoker (the original or ours) serves again. The last argument says whether the
# exchange was begun. Before that nothing was moved.
name=$1 restart=$2 before=$3 begun=$4
exists() { docker container inspect "$1" >/dev/null 2>&1; }
ours() { [ "$(docker inspect --format '{{ index .Config.Labels "org.opencontainers.image.title" }}' "$1")" = gpuwhisk/invoker ]; }
# still NAME stops a container for good.
still() {
	docker update --restart=no "$1" >/dev/null
	docker stop --time 1 "$1" >/dev/null
}
aside=$name-old
[ "$before" = ours ] || aside=$name-stock
if [ "$begun" = yes ]; then
	# Of the way back the original may run already, under either name: it waits
	# for the next try.
	if [ "$before" = ours ] && exists "$name-stock"; then still "$name-stock"; fi
	if exists "$aside"; then
		if ! exists "$name"; then
			:
		elif ours "$name"; then
			docker rm -f "$name" >/dev/null
		else
			still "$name"
			docker rename "$name" "$name-stock"
		fi
		docker rename "$aside" "$name"
	fi
fi
docker rm -f "$name-next" "$name-probe" >/dev/null 2>&1 || true
docker update --restart="$restart" "$name" >/dev/null
docker start "$name" >/dev/null
