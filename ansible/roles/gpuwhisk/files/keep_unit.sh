# keep ID: stores the files that the unit runs from, for a rollback.
id=$1 kept=/var/cache/gpuwhisk/before-$1
rm -rf "$kept"
mkdir -p -m 700 "$kept"
for path in usr/bin/gpuwhisk usr/lib/gpuwhisk/libgpuwhisk.so "etc/gpuwhisk/invoker$id.env" "etc/gpuwhisk/invoker$id.credentials" \
	"etc/systemd/system/gpuwhisk@$id.service.d"; do
	[ ! -e "/$path" ] || (cd / && cp -a --parents "$path" "$kept/")
done
