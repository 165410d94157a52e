#!/usr/bin/env bash
# Signs a release with cosign, and checks what it signed.
#
#   sign.sh files [DIST]     SHA256SUMS, and a statement of how its files were made
#                            (SLSA provenance), in DIST (default dist)
#   sign.sh image REF...     images in a registry, by their digests
#
# COSIGN_KEY       a private key (cosign generate-key-pair) or the URL of one in a
#                  KMS; COSIGN_PASSWORD opens it. Without a key cosign is keyless: it
#                  signs as the identity that the release's CI or the browser proves, and
#                  publishes that in Sigstore's log.
# COSIGN_IDENTITY, COSIGN_ISSUER   that identity, which the check demands
# BUILDER          the URI of what built the release (default: this script's)
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
COSIGN=github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
source=https://github.com/gpuwhisk/gpuwhisk

fail() {
	echo "sign.sh: $*" >&2
	exit 1
}

# cosign is as large as a release, so the installed one is used.
cosign=$(command -v cosign || true)
if [[ ! $cosign ]]; then
	echo "building $COSIGN, for some minutes" >&2
	GOBIN=$top/build/cosign GOFLAGS='' CGO_CFLAGS='' go install "$COSIGN"
	cosign=$top/build/cosign/cosign
fi

if [[ ${COSIGN_KEY:-} ]]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	"$cosign" public-key --key "$COSIGN_KEY" >"$work/public"
	# Without a log and a time stamp, because signed content need not be public.
	"$cosign" signing-config create --out "$work/config"
	with=(--key "$COSIGN_KEY" --signing-config "$work/config")
	by=(--key "$work/public" --insecure-ignore-tlog)
else
	[[ ${COSIGN_IDENTITY:-} && ${COSIGN_ISSUER:-} ]] ||
		fail "set COSIGN_KEY, or COSIGN_IDENTITY and COSIGN_ISSUER of the person who signs without one"
	with=()
	by=(--certificate-identity "$COSIGN_IDENTITY" --certificate-oidc-issuer "$COSIGN_ISSUER")
fi

# statement prints the built files, their commit and the tools that built them.
statement() {
	local commit
	commit=$(git -C "$top" rev-parse HEAD)
	cat <<END
{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [$(sed -E 's|^([0-9a-f]{64})  (.+)$|{"name": "\2", "digest": {"sha256": "\1"}}|' SHA256SUMS | paste -sd,)],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {
    "buildDefinition": {
      "buildType": "$source/blob/main/invoker/package/packages.sh",
      "externalParameters": {"command": "make release", "version": "$(git -C "$top" describe --tags --always --dirty)"},
      "resolvedDependencies": [
        {"uri": "git+$source", "digest": {"gitCommit": "$commit"}},
        {"uri": "https://go.dev/dl/", "name": "$(go env GOVERSION)"}
      ]
    },
    "runDetails": {
      "builder": {"id": "${BUILDER:-$source/blob/main/invoker/package/sign.sh}"},
      "metadata": {"finishedOn": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"}
    }
  }
}
END
}

case ${1:-} in
files)
	cd "${2:-$top/dist}"
	[[ -s SHA256SUMS ]] || fail "no SHA256SUMS in $PWD: make release writes it"
	sha256sum --quiet --check SHA256SUMS
	"$cosign" sign-blob --yes "${with[@]}" --bundle SHA256SUMS.sigstore.json SHA256SUMS >/dev/null
	"$cosign" verify-blob "${by[@]}" --bundle SHA256SUMS.sigstore.json SHA256SUMS
	statement >provenance.json
	"$cosign" attest-blob --yes "${with[@]}" --statement provenance.json --bundle provenance.sigstore.json >/dev/null
	for file in $(cut -c67- SHA256SUMS); do
		"$cosign" verify-blob-attestation "${by[@]}" --type slsaprovenance1 --bundle provenance.sigstore.json "$file"
	done
	chmod 644 ./*.sigstore.json
	;;
image)
	shift
	for image; do
		[[ $image == *@sha256:* ]] || fail "$image: name the image by its digest, REPOSITORY@sha256:..., which docker push prints"
		"$cosign" sign --yes "${with[@]}" "$image"
		"$cosign" verify "${by[@]}" "$image" >/dev/null
	done
	;;
*) fail "files [DIST] or image REPOSITORY@sha256:..." ;;
esac
