# exchange NAME RESTART SECONDS: ours makes room for the original.
name=$1 restart=$2 timeout=$3
docker rm -f "$name-old" >/dev/null 2>&1 || true
docker update --restart=no "$name" >/dev/null
docker stop --time "$timeout" "$name" >/dev/null
docker start "$name-stock" >/dev/null
docker rename "$name" "$name-old"
docker rename "$name-stock" "$name"
docker update --restart="$restart" "$name" >/dev/null
