# exchange NAME ID RESTART: the unit finishes its running activations and makes room for the
# original container.
name=$1 unit=gpuwhisk@$2.service restart=$3
systemctl --quiet disable "$unit"
systemctl stop "$unit"
docker start "$name-stock" >/dev/null
docker rename "$name-stock" "$name"
docker update --restart="$restart" "$name" >/dev/null
