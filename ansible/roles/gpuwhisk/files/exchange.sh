# exchange NAME ID stock|ours SECONDS WAIT: the running container makes room for
# NAME-next. All in one, since nobody serves between the stop and the start;
# then the first activation runs through it, and only one that answers gets the
# name. The probe has the new one's settings. docker exec waits for ever where
# the container ends while the probe starts, hence the limit.
name=$1 id=$2 kind=$3 timeout=$4 wait=$5
aside=$name-stock
[ "$kind" = stock ] || aside=$name-old
docker rm -f "$aside" >/dev/null 2>&1 || true
docker update --restart=no "$name" >/dev/null
docker stop --time "$timeout" "$name" >/dev/null
docker start "$name-next" >/dev/null
timeout -k 5 "$((wait + 30))" docker exec "$name-next" gpuwhisk probe --id "$id" --wait "${wait}s"
docker rename "$name" "$aside"
docker rename "$name-next" "$name"
