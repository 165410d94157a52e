package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Limits reads the limits of a namespace, which are a separate document in the database
// of subjects (auth_design_document_for_subjects_db_v2.0.0.json). Without such a
// document, or if it is unreadable, no limit is set (Identity.scala).
func (s *Store) Limits(ctx context.Context, namespace string) (activation.UserLimits, error) {
	ctx, cancel := context.WithTimeout(ctx, s.blacklist.timeout)
	defer cancel()
	var doc json.RawMessage
	path := url.PathEscape(s.raw.cfg.Subjects) + "/" + url.PathEscape(namespace+"/limits")
	err := s.raw.call(ctx, http.MethodGet, path, "", &doc)
	if errors.Is(err, errMissing) {
		return activation.UserLimits{}, nil
	}
	if err != nil {
		return activation.UserLimits{}, fmt.Errorf("read the limits of namespace %s: %w", namespace, err)
	}
	limits, err := activation.ParseUserLimits(doc)
	if err != nil {
		return activation.UserLimits{}, nil
	}
	return limits, nil
}
