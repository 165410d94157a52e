package couchbase

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/couchbase/gocb/v2"
)

// settings names the keys that an operator checks after an error.
func (s *Store) settings(ctx context.Context, err error) string {
	if named := about(err); named != "" {
		return named
	}
	if why := s.distrust(ctx); why != nil {
		return ": " + why.Error() + " (whisk.gpu.couchbase.certificate)"
	}
	return " (whisk.gpu.couchbase.connection)"
}

// about names the keys behind an error that the cluster reports.
func about(err error) string {
	const under = " (whisk.gpu.couchbase."
	switch {
	case errors.Is(err, gocb.ErrAuthenticationFailure):
		return under + "username, password, or bucket)"
	case errors.Is(err, gocb.ErrBucketNotFound):
		return under + "bucket)"
	case errors.Is(err, gocb.ErrScopeNotFound), errors.Is(err, gocb.ErrCollectionNotFound):
		return under + "scope, collection)"
	}
	return ""
}

// distrust returns why the certificate of a node is not trusted, which the library's
// errors leave out; nil where it is trusted, where no server answers, and without TLS.
func (s *Store) distrust(ctx context.Context) error {
	const port = "11207" // of data over TLS
	hosts, secure := strings.CutPrefix(s.connection, "couchbases://")
	if !secure {
		return nil
	}
	if end := strings.IndexAny(hosts, "/?"); end >= 0 {
		hosts = hosts[:end]
	}
	ctx, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		conn, err := (&tls.Dialer{Config: s.trust}).DialContext(ctx, "tcp", host)
		if err == nil {
			_ = conn.Close()
			continue
		}
		var cert *tls.CertificateVerificationError
		if errors.As(err, &cert) {
			return cert
		}
	}
	return nil
}
