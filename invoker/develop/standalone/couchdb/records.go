package couchdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-kivik/kivik/v4"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Activations are the summaries of a namespace's records, the last started
// first. A name, of an action or package/action, selects some.
func (c *Client) Activations(namespace, name string) Query {
	q := Query{DB: c.names.Activations, Design: "whisks.v2.1.0", View: "activations", Prefix: namespace}
	if name != "" {
		q.Design = "whisks-filters.v2.1.1"
		q.Prefix += "/" + name
	}
	return q
}

// Records gives the whole records that a query selects.
func (c *Client) Records(ctx context.Context, q Query) ([]*activation.Record, error) {
	q.Docs = true
	docs, err := c.Rows(ctx, q)
	if err != nil {
		return nil, err
	}
	records := make([]*activation.Record, len(docs))
	for i, doc := range docs {
		if records[i], err = activation.DecodeRecord(doc); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// Record reads the record of an activation in a namespace.
func (c *Client) Record(ctx context.Context, namespace string, id activation.ID) (*activation.Record, error) {
	doc, err := c.Get(ctx, c.names.Activations, namespace+"/"+string(id))
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", id, err)
	}
	return activation.DecodeRecord(doc)
}

// SaveRecord writes a record. It returns nil if the record exists already.
func (c *Client) SaveRecord(ctx context.Context, r *activation.Record, now int64) error {
	_, err := c.Put(ctx, c.names.Activations, r.DocumentID(), r.Document(now))
	if err != nil && !errors.Is(err, ErrConflict) {
		return fmt.Errorf("write record %s: %w", r.ActivationID, err)
	}
	return nil
}

// Identity finds the user of a key. The error is ErrNotFound if no user has the key, or
// two users have it, who then may not use it.
func (c *Client) Identity(ctx context.Context, uuid, key string) (*activation.Identity, error) {
	var user activation.Identity
	found := 0
	params := map[string]any{"key": []string{uuid, key}, "limit": 2}
	err := c.each(ctx, c.names.Subjects, "subjects.v2.0.0", "identities", params, func(row *kivik.ResultSet) (err error) {
		var n struct{ Namespace, UUID, Key string }
		found++
		if err = row.ScanValue(&n); err != nil {
			return err
		}
		user = activation.Identity{
			Namespace: activation.Namespace{Name: n.Namespace, UUID: n.UUID},
			AuthKey:   activation.NewAuthKey(n.UUID + ":" + n.Key),
			Rights:    []string{"READ", "PUT", "DELETE", "ACTIVATE"},
		}
		user.Subject, err = row.ID()
		return err
	})
	if err == nil && found != 1 {
		err = ErrNotFound
	}
	if err == nil {
		user.Limits, err = c.limits(ctx, user.Namespace.Name)
	}
	return &user, err
}

// limits reads the document <namespace>/limits; most namespaces have none.
func (c *Client) limits(ctx context.Context, namespace string) (limits activation.UserLimits, err error) {
	doc, err := c.Get(ctx, c.names.Subjects, namespace+"/limits")
	if errors.Is(err, ErrNotFound) {
		return limits, nil
	}
	if err == nil {
		limits, err = activation.ParseUserLimits(doc)
	}
	if err != nil {
		return limits, fmt.Errorf("read limits of %s: %w", namespace, err)
	}
	return limits, nil
}
