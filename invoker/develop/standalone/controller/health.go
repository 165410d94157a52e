package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// SystemNamespace holds the installation's own entities.
const SystemNamespace = "whisk.system"

func (c *Controller) healthRef() entity.Ref {
	return entity.Ref{Path: SystemNamespace, Name: "invokerHealthTestAction" + c.cfg.ID}
}

// putHealthAction writes the action that invokers are tested with: the least
// memory, its code in the document.
func (c *Controller) putHealthAction(ctx context.Context) error {
	ref := c.healthRef()
	a := entity.New(entity.Action, ref)
	a.Version, a.Updated, a.Exec = activation.DefaultVersion, now(), &entity.Exec{Kind: c.cfg.HealthKind, Code: &c.cfg.HealthCode}
	a.Limits.MemoryMB = activation.DefaultBounds().MemoryMB.Min
	old, err := c.cfg.DB.Entity(ctx, entity.Action, ref)
	if err == nil {
		a.Rev = old.Rev
	}
	if err := c.cfg.DB.PutEntity(ctx, a); err != nil {
		return fmt.Errorf("write health test action: %w", err)
	}
	return nil
}

// sendTest runs the test action on one invoker. Its ack is recognised by its
// transaction; no caller waits here.
func (c *Controller) sendTest(ctx context.Context, invoker int) {
	ref := c.healthRef()
	m := activation.Message{
		TransID:      c.health,
		Action:       activation.ActionRef{Path: ref.Path, Name: ref.Name, Version: activation.DefaultVersion},
		ActivationID: newID(),
		Controller:   c.cfg.ID,
		User: activation.Identity{
			Subject:   SystemNamespace,
			Namespace: activation.Namespace{Name: SystemNamespace, UUID: string(newID())},
			AuthKey:   activation.NewAuthKey(string(newID()) + ":" + NewTransID() + NewTransID()),
			Rights:    []string{},
		},
	}
	// A ping can come before the invoker has made its topic, and the next test is
	// a minute away: Publish retries for a moment.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.cfg.Bus.Publish(ctx, activation.Instance{ID: invoker}.Topic(), m.Encode()); err != nil {
		c.log.Warn("health test was not sent", "invoker", invoker, "error", err)
	}
}

func (c *Controller) onPing(value []byte) {
	p, err := activation.DecodePing(value)
	if err != nil {
		c.damaged.Log(c.log, slog.LevelWarn, "ping cannot be decoded", "error", err)
		return
	}
	if c.pool.ping(p, time.Now()) { // from a goroutine: the loops read on meanwhile
		_ = c.begin(func() { c.sendTest(c.ctx, p.Instance.ID) }) // at the end none is needed
	}
}

// onAck passes a result to the waiting caller: a record, or nil if only the database has
// the record. A second answer for the same activation is dropped.
func (c *Controller) onAck(value []byte) {
	ack, err := activation.DecodeAck(value)
	if err != nil {
		c.damaged.Log(c.log, slog.LevelWarn, "ack cannot be decoded", "error", err)
		return
	}
	if caller, waits := c.callers.Load(ack.ActivationID); waits && ack.Kind != activation.Completion {
		select {
		case caller.(chan *activation.Record) <- ack.Record:
		default:
		}
	}
	isTest := string(ack.TransID.JSON()) == string(c.health.JSON())
	if isTest && ack.FreesSlot() && !ack.SystemError {
		c.pool.passed(ack.Instance.ID, time.Now())
	}
}

// Invokers are the states of the invokers that ever pinged, by name.
func (c *Controller) Invokers() map[string]State { return c.pool.states(time.Now()) }

// WaitHealthy returns when an invoker is up, or with the context's error.
func (c *Controller) WaitHealthy(ctx context.Context) error {
	for {
		passes, _ := c.pool.next()
		if _, ok := c.pool.pick("", time.Now()); ok {
			return nil
		}
		select {
		case <-passes:
		case <-ctx.Done():
			return fmt.Errorf("wait for a healthy invoker: %w", ctx.Err())
		}
	}
}
