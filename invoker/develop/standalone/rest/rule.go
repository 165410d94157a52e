package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// A rule lies in its own document, its state and its action also in its
// trigger's.

// triggerOf reads the trigger of a rule, nil when that is gone.
func (r *request) triggerOf(rule *entity.Entity) (*entity.Entity, error) {
	trigger, err := r.DB.Entity(r.Context(), entity.Trigger, *rule.Trigger)
	if couchdb.Absent(err) {
		return nil, nil
	}
	return trigger, err
}

// ruleAnswer is the rule with its state.
func (r *request) ruleAnswer(rule *entity.Entity) ([]byte, error) {
	trigger, err := r.triggerOf(rule)
	rule.Status = trigger.RuleStatus(rule.ID)
	return rule.Answer(), err
}

// linkRule writes the rule into its trigger, and takes it out of the trigger
// that it had before.
func (r *request) linkRule(rule, old *entity.Entity) error {
	trigger, err := r.checkRule(rule)
	if err != nil {
		return err
	}
	status := entity.Active
	if old.Rev != "" {
		before, err := r.triggerOf(old)
		if err != nil {
			return err
		}
		status = before.RuleStatus(rule.ID)
		if before != nil && *old.Trigger != *rule.Trigger {
			before.DropRule(rule.ID)
			if err := r.DB.PutEntity(r.Context(), before); err != nil {
				return err
			}
		}
	}
	trigger.SetRule(rule.ID, entity.Link{Action: *rule.Action, Status: status})
	return r.DB.PutEntity(r.Context(), trigger)
}

// unlinkRule takes the rule out of its trigger.
func (r *request) unlinkRule(rule *entity.Entity) error {
	trigger, err := r.triggerOf(rule)
	if err != nil || trigger == nil {
		return err
	}
	trigger.DropRule(rule.ID)
	return r.DB.PutEntity(r.Context(), trigger)
}

// checkRule refuses a rule whose trigger or action is not there.
func (r *request) checkRule(rule *entity.Entity) (*entity.Entity, error) {
	if err := r.own(rule.Trigger.Namespace()); err != nil {
		return nil, err
	}
	if err := r.mayUse(*rule.Action); err != nil {
		return nil, err
	}
	trigger, err := r.triggerOf(rule)
	if err != nil {
		return nil, err
	}
	if trigger == nil {
		return nil, entity.Bad("trigger /%s does not exist", rule.Trigger)
	}
	if _, err = r.DB.Resolve(r.Context(), *rule.Action); couchdb.Absent(err) {
		return nil, entity.Bad("action /%s does not exist", rule.Action)
	}
	return trigger, err
}

// switchRule turns a rule on or off.
func (r *request) switchRule() error {
	body := r.body()
	if r.err != nil {
		return r.err
	}
	status, err := entity.DecodeStatus(body)
	if err != nil {
		return err
	}
	rule, err := r.ownEntity(entity.Rule)
	if err != nil {
		return err
	}
	trigger, err := r.triggerOf(rule)
	if err != nil {
		return err
	}
	if trigger == nil {
		return entity.Refuse(http.StatusNotFound, "Only rules with existing triggers can be activated")
	}
	if trigger.RuleStatus(rule.ID) != status {
		trigger.SetRule(rule.ID, entity.Link{Action: *rule.Action, Status: status})
		if err := r.DB.PutEntity(r.Context(), trigger); err != nil {
			return err
		}
	}
	return r.text(http.StatusOK, "OK")
}

func (r *request) fireTrigger() error {
	payload := r.payload(false)
	if r.err != nil {
		return r.err
	}
	t, err := r.ownEntity(entity.Trigger)
	if err != nil {
		return err
	}
	id, fired, err := r.Controller.Fire(controller.Event{
		User: *r.user, TransID: r.transID, Trigger: t, Payload: payload, Headers: r.headerObject(),
	})
	switch {
	case err != nil:
		return err
	case !fired:
		return r.empty(http.StatusNoContent)
	}
	return r.accepted(id)
}

// headerObject returns the request's headers in the form that actions get: with names in
// lower case. As in the original, headers about the transport of the body are left out.
func (r *request) headerObject() json.RawMessage {
	all := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		switch name {
		case "Content-Length", "Transfer-Encoding":
		default:
			all[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	b, _ := entity.Marshal(all) // a map of strings always encodes
	return b
}
