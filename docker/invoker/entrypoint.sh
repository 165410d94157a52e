#!/bin/sh
# The image's entry point: a program that is named runs as it is, which is how
# OpenWhisk starts /bin/sh -c "exec /init.sh ..."; all else are gpuwhisk's words.
case ${1:-} in
'' | -* | invoker | doctor | standalone | sim | gpu-check | version | demo | native-proxy | completion | man)
	exec /usr/bin/gpuwhisk "$@"
	;;
esac
exec "$@"
