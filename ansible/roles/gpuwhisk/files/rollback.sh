# rollback NAME RESTART stock|ours yes|no: whatever step an exchange stopped at,
# what served before it (the original or ours) serves again. The last word says
# whether the exchange was begun: before it nothing was moved.
name=$1 restart=$2 before=$3 begun=$4
exists() { docker container inspect "$1" >/dev/null 2>&1; }
aside=$name-old
[ "$before" = ours ] || aside=$name-stock
if [ "$begun" = yes ] && exists "$aside"; then
	if exists "$name"; then
		title=$(docker inspect --format '{{ index .Config.Labels "org.opencontainers.image.title" }}' "$name")
		if [ "$title" = gpuwhisk/invoker ]; then
			docker rm -f "$name" >/dev/null
		else # the way back failed: the original waits for the next try
			docker update --restart=no "$name" >/dev/null
			docker stop --time 1 "$name" >/dev/null
			docker rename "$name" "$name-stock"
		fi
	fi
	docker rename "$aside" "$name"
fi
docker rm -f "$name-next" >/dev/null 2>&1 || true
docker update --restart="$restart" "$name" >/dev/null
docker start "$name" >/dev/null
