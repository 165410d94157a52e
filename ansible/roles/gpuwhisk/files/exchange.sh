# exchange NAME stock|ours SECONDS: the running container makes room for
# NAME-next. All in one, since nobody serves between the stop and the start.
name=$1 kind=$2 timeout=$3
aside=$name-stock
[ "$kind" = stock ] || aside=$name-old
docker rm -f "$aside" >/dev/null 2>&1 || true
docker update --restart=no "$name" >/dev/null
docker stop --time "$timeout" "$name" >/dev/null
docker rename "$name" "$aside"
docker rename "$name-next" "$name"
docker start "$name" >/dev/null
