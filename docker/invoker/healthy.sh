#!/bin/sh
# The image's health check: does the invoker take work? With https and client
# certificates only those who have one may ask, so an open port has to do.
port=${PORT:-8080}
if [ "${CONFIG_whisk_invoker_protocol:-http}" = https ]; then
	exec nc -z -w 2 127.0.0.1 "$port"
fi
exec wget -q -T 3 -O /dev/null "http://127.0.0.1:$port/ping"
