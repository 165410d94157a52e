#!/bin/sh
# Calls the variant of iptables that the node's kubelet uses: rules of the other variant
# are in the kernel, too, but a person who looks for them does not see them.
kind=nft
for candidate in nft legacy; do
	if "/usr/bin/xtables-$candidate-multi" iptables-save -t mangle 2>/dev/null | grep -q '^:KUBE-'; then
		kind=$candidate
		break
	fi
done
exec "/usr/bin/xtables-$kind-multi" iptables "$@"
