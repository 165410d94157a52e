package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
)

// Identity finds who a key belongs to.
func (c *Catalog) Identity(ctx context.Context, uuid, key string) (*activation.Identity, error) {
	row, err := c.db.Identity(ctx, uuid, key)
	if err != nil {
		return nil, err
	}
	return c.identity(ctx, row)
}

// Owner finds the identity of a namespace.
func (c *Catalog) Owner(ctx context.Context, namespace string) (*activation.Identity, error) {
	row, err := c.db.Identity(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return c.identity(ctx, row)
}

func (c *Catalog) identity(ctx context.Context, row *couchdb.IdentityRow) (*activation.Identity, error) {
	limits, err := c.limits(ctx, row.Namespace)
	if err != nil {
		return nil, err
	}
	return &activation.Identity{
		Subject:   row.Subject,
		Namespace: activation.Namespace{Name: row.Namespace, UUID: row.UUID},
		AuthKey:   activation.NewAuthKey(row.UUID + ":" + row.Key),
		Rights:    []string{"READ", "PUT", "DELETE", "ACTIVATE"},
		Limits:    limits,
	}, nil
}

// limits reads the document <namespace>/limits; most namespaces have none.
func (c *Catalog) limits(ctx context.Context, namespace string) (activation.UserLimits, error) {
	var l activation.UserLimits
	doc, err := c.db.Get(ctx, c.subjects, namespace+"/limits")
	if errors.Is(err, couchdb.ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read limits of %s: %w", namespace, err)
	}
	var d struct {
		StoreActivations      *bool `json:"storeActivations"`
		MinMemory             *int  `json:"minActionMemory"`
		MaxMemory             *int  `json:"maxActionMemory"`
		MinLogs               *int  `json:"minActionLogs"`
		MaxLogs               *int  `json:"maxActionLogs"`
		MinTimeout            *int  `json:"minActionTimeout"`
		MaxTimeout            *int  `json:"maxActionTimeout"`
		MinConcurrency        *int  `json:"minActionConcurrency"`
		MaxConcurrency        *int  `json:"maxActionConcurrency"`
		InvocationsPerMinute  *int  `json:"invocationsPerMinute"`
		ConcurrentInvocations *int  `json:"concurrentInvocations"`
		FiresPerMinute        *int  `json:"firesPerMinute"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return l, fmt.Errorf("decode limits of %s: %w", namespace, err)
	}
	return activation.UserLimits{
		StoreActivations: d.StoreActivations,
		MinMemoryMB:      d.MinMemory, MaxMemoryMB: d.MaxMemory,
		MinLogsMB: d.MinLogs, MaxLogsMB: d.MaxLogs,
		MinTimeoutMillis: d.MinTimeout, MaxTimeoutMillis: d.MaxTimeout,
		MinConcurrency: d.MinConcurrency, MaxConcurrency: d.MaxConcurrency,
		InvocationsPerMinute: d.InvocationsPerMinute, ConcurrentInvoked: d.ConcurrentInvocations,
		FiresPerMinute: d.FiresPerMinute,
	}, nil
}
