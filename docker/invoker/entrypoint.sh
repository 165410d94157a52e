#!/bin/sh
# The image's entry point. The name of a command of gpuwhisk, and flags, run gpuwhisk. Any
# other first argument is a program: OpenWhisk starts /bin/sh -c "exec /init.sh ...".
case ${1:-} in
'' | -* | invoker | standalone | demo | top | explain | load | new | sim | doctor | \
	gpu-check | ping | drained | probe | clean | completion | version | help)
	exec /usr/bin/gpuwhisk "$@"
	;;
esac
exec "$@"
