package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// rules routes .../rules and .../rules/NAME.
func (d *Door) rules(r *request, ns string, path []string) error {
	if err := r.own(ns); err != nil {
		return err
	}
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		return d.listRules(r, ns)
	}
	ref, err := entityRef(r, ns, path)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return d.getRule(r, ref)
	case http.MethodPut:
		return d.putRule(r, ref)
	case http.MethodPost:
		return d.switchRule(r, ref)
	case http.MethodDelete:
		return d.deleteRule(r, ref)
	}
	return notAllowed()
}

// listRules lists whole rules: their view has no summaries.
func (d *Door) listRules(r *request, ns string) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	counting, err := r.flag("count", false)
	if err != nil {
		return err
	}
	if counting {
		return d.listEntities(r, catalog.Rules, ns)
	}
	p, err := r.page("rules")
	if err != nil {
		return err
	}
	docs, err := d.cfg.Catalog.List(r.Context(), catalog.Rules, ns, p.skip, p.limit)
	if err != nil {
		return err
	}
	items := make([]json.RawMessage, 0, len(docs))
	for _, doc := range docs {
		rule, err := entity.DecodeRule(doc)
		if err != nil {
			return err
		}
		items = append(items, rule.Encode(entity.ForAnswer, ""))
	}
	return r.list(items)
}

// trigger reads the trigger of a rule; nil when it is gone.
func (d *Door) trigger(ctx context.Context, ref entity.Ref) (*entity.Trigger, error) {
	t, err := d.cfg.Catalog.Trigger(ctx, ref)
	if is(err, couchdb.ErrNotFound, entity.ErrOtherKind) {
		return nil, nil
	}
	return t, err
}

func (d *Door) getRule(r *request, ref entity.Ref) error {
	rule, err := d.cfg.Catalog.Rule(r.Context(), ref)
	if err != nil {
		return err
	}
	t, err := d.trigger(r.Context(), rule.Trigger)
	if err != nil {
		return err
	}
	return r.raw(http.StatusOK, rule.Encode(entity.ForAnswer, t.Status(rule.ID())))
}

func (d *Door) putRule(r *request, ref entity.Ref) error {
	body, overwrite, err := r.put()
	if err != nil {
		return err
	}
	put, err := entity.DecodeRulePut(body, r.user.Namespace.Name)
	if err != nil {
		return err
	}
	old, err := d.cfg.Catalog.Rule(r.Context(), ref)
	if err != nil && !errors.Is(err, couchdb.ErrNotFound) {
		return err
	}
	if err == nil && !overwrite {
		return conflict(textExists)
	}
	var rule *entity.Rule
	if old == nil {
		rule, err = put.Create(ref, millis())
	} else {
		rule, err = put.Update(old, millis())
	}
	if err != nil {
		return err
	}
	return d.writeRule(r, rule, old)
}

// writeRule notes the rule in its trigger, takes it out of the trigger it had
// before, and writes it.
func (d *Door) writeRule(r *request, rule, old *entity.Rule) error {
	ctx := r.Context()
	t, err := d.checkRule(r, rule)
	if err != nil {
		return err
	}
	status := entity.Active
	if old != nil {
		before, err := d.trigger(ctx, old.Trigger)
		if err != nil {
			return err
		}
		status = before.Status(rule.ID())
		if before != nil && old.Trigger != rule.Trigger {
			before.DropRule(rule.ID())
			if err := d.cfg.Catalog.PutTrigger(ctx, before); err != nil {
				return err
			}
		}
	}
	t.SetRule(rule.ID(), entity.Link{Action: rule.Action, Status: status})
	if err := d.cfg.Catalog.PutTrigger(ctx, t); err != nil {
		return err
	}
	if err := d.cfg.Catalog.PutRule(ctx, rule); err != nil {
		return err
	}
	return r.raw(http.StatusOK, rule.Encode(entity.ForAnswer, status))
}

// checkRule refuses a rule whose trigger or action is not there.
func (d *Door) checkRule(r *request, rule *entity.Rule) (*entity.Trigger, error) {
	if err := r.own(rule.Trigger.Namespace()); err != nil {
		return nil, err
	}
	if err := d.mayUse(r, rule.Action.Namespace(), rule.Action.Package()); err != nil {
		return nil, err
	}
	t, err := d.cfg.Catalog.Trigger(r.Context(), rule.Trigger)
	if is(err, couchdb.ErrNotFound, entity.ErrOtherKind) {
		return nil, bad("trigger /" + rule.Trigger.String() + " does not exist")
	}
	if err != nil {
		return nil, err
	}
	_, err = d.cfg.Catalog.Resolve(r.Context(), rule.Action)
	if is(err, couchdb.ErrNotFound, entity.ErrOtherKind) {
		return nil, bad("action /" + rule.Action.String() + " does not exist")
	}
	return t, err
}

// switchRule turns a rule on or off.
func (d *Door) switchRule(r *request, ref entity.Ref) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	status, err := entity.DecodeStatus(body)
	if err != nil {
		return err
	}
	rule, err := d.cfg.Catalog.Rule(r.Context(), ref)
	if err != nil {
		return err
	}
	t, err := d.trigger(r.Context(), rule.Trigger)
	if err != nil {
		return err
	}
	if t == nil {
		return &refusal{http.StatusNotFound, "Only rules with existing triggers can be activated"}
	}
	if t.Status(rule.ID()) != status {
		t.SetRule(rule.ID(), entity.Link{Action: rule.Action, Status: status})
		if err := d.cfg.Catalog.PutTrigger(r.Context(), t); err != nil {
			return err
		}
	}
	return r.text(http.StatusOK, "OK")
}

func (d *Door) deleteRule(r *request, ref entity.Ref) error {
	ctx := r.Context()
	rule, err := d.cfg.Catalog.Rule(ctx, ref)
	if err != nil {
		return err
	}
	t, err := d.trigger(ctx, rule.Trigger)
	if err != nil {
		return err
	}
	if t != nil {
		t.DropRule(rule.ID())
		if err := d.cfg.Catalog.PutTrigger(ctx, t); err != nil {
			return err
		}
	}
	if err := d.cfg.Catalog.Delete(ctx, &rule.Head); err != nil {
		return err
	}
	return r.raw(http.StatusOK, rule.Encode(entity.ForAnswer, entity.Inactive))
}
