# exchange NAME ID stock|ours SECONDS: NAME-next replaces the running container.
# All in one, since no invoker serves between the stop and the start; so
# NAME-probe, which has the new one's settings, is ready to send before anything
# stops. Only one that answers it gets the name.
name=$1 id=$2 kind=$3 timeout=$4
aside=$name-stock
[ "$kind" = stock ] || aside=$name-old
is() { [ "$(docker inspect --format "$2" "$1")" = "$3" ]; }
tell() {
	docker logs "$name-probe"
	[ -z "${1:-}" ] || { echo "$1" >&2; exit 1; }
}
docker start "$name-probe" >/dev/null
until docker logs "$name-probe" 2>&1 | grep -q '^ready'; do
	is "$name-probe" '{{.State.Running}}' true || tell "the probe of invoker$id ended before it was ready"
	sleep 0.2
done
docker rm -f "$aside" >/dev/null 2>&1 || true
docker update --restart=no "$name" >/dev/null
docker stop --time "$timeout" "$name" >/dev/null
docker start "$name-next" >/dev/null
docker kill --signal USR1 "$name-probe" >/dev/null
while is "$name-probe" '{{.State.Running}}' true; do
	is "$name-next" '{{.State.Running}} {{.RestartCount}}' 'true 0' || tell "the new invoker$id ended"
	sleep 0.5
done
is "$name-probe" '{{.State.ExitCode}}' 0 || tell "invoker$id was not answered for"
tell
docker rm -f "$name-probe" >/dev/null
docker rename "$name" "$aside"
docker rename "$name-next" "$name"
