#!/bin/sh
# The image's entry point: a program that is named runs as it is, which is how
# OpenWhisk starts /bin/sh -c "exec /init.sh ..."; all else are gpuwhisk's arguments.
case ${1:-} in
'' | -* | invoker | doctor | drained | ping | probe | standalone | sim | gpu-check | version | demo | completion)
	exec /usr/bin/gpuwhisk "$@"
	;;
esac
exec "$@"
