package rest

import (
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

func (h *Handler) getTrigger(r *request) error {
	t, err := h.get(r, entity.Trigger)
	if err != nil {
		return err
	}
	return r.raw(http.StatusOK, t.Answer())
}

func (h *Handler) putTrigger(r *request) error {
	t, _, err := h.merge(r, entity.Trigger, nil)
	if err != nil {
		return err
	}
	if err := h.cfg.Catalog.Put(r.Context(), t); err != nil {
		return err
	}
	return r.raw(http.StatusOK, t.Answer())
}

func (h *Handler) deleteTrigger(r *request) error {
	t, err := h.get(r, entity.Trigger)
	if err != nil {
		return err
	}
	return h.deleted(r, t, t.Answer())
}

// ruleAndTrigger reads the rule that the path names and its trigger, nil when
// that is gone.
func (h *Handler) ruleAndTrigger(r *request) (rule, trigger *entity.Entity, err error) {
	if rule, err = h.get(r, entity.Rule); err != nil {
		return nil, nil, err
	}
	trigger, err = h.cfg.Catalog.Get(r.Context(), entity.Trigger, rule.TriggerRef)
	if absent(err) {
		return rule, nil, nil
	}
	return rule, trigger, err
}

func (h *Handler) getRule(r *request) error {
	rule, trigger, err := h.ruleAndTrigger(r)
	if err != nil {
		return err
	}
	return r.raw(http.StatusOK, rule.AnswerRule(trigger.RuleStatus(rule.ID())))
}

// putRule writes the rule into its trigger, takes it out of the trigger it had
// before, and writes it.
func (h *Handler) putRule(r *request) error {
	rule, old, err := h.merge(r, entity.Rule, nil)
	if err != nil {
		return err
	}
	trigger, err := h.checkRule(r, rule)
	if err != nil {
		return err
	}
	status := entity.Active
	if old != nil {
		if status, err = h.unlink(r, rule, old.TriggerRef); err != nil {
			return err
		}
	}
	trigger.SetRule(rule.ID(), entity.Link{Action: rule.ActionRef, Status: status})
	if err := h.cfg.Catalog.Put(r.Context(), trigger); err != nil {
		return err
	}
	if err := h.cfg.Catalog.Put(r.Context(), rule); err != nil {
		return err
	}
	return r.raw(http.StatusOK, rule.AnswerRule(status))
}

// unlink takes a rule out of the trigger it had before, unless it still has it,
// and gives the state it had there.
func (h *Handler) unlink(r *request, rule *entity.Entity, from entity.Ref) (status string, err error) {
	before, err := h.cfg.Catalog.Get(r.Context(), entity.Trigger, from)
	if absent(err) {
		return entity.Inactive, nil
	}
	if err != nil || from == rule.TriggerRef {
		return before.RuleStatus(rule.ID()), err
	}
	status = before.RuleStatus(rule.ID())
	before.DropRule(rule.ID())
	return status, h.cfg.Catalog.Put(r.Context(), before)
}

// checkRule refuses a rule whose trigger or action is not there.
func (h *Handler) checkRule(r *request, rule *entity.Entity) (*entity.Entity, error) {
	if err := r.own(rule.TriggerRef.Namespace()); err != nil {
		return nil, err
	}
	if err := h.mayUse(r, rule.ActionRef.Namespace(), rule.ActionRef.Package()); err != nil {
		return nil, err
	}
	trigger, err := h.cfg.Catalog.Get(r.Context(), entity.Trigger, rule.TriggerRef)
	if absent(err) {
		return nil, bad("trigger /" + rule.TriggerRef.String() + " does not exist")
	}
	if err != nil {
		return nil, err
	}
	_, err = h.cfg.Catalog.Resolve(r.Context(), rule.ActionRef)
	if absent(err) {
		return nil, bad("action /" + rule.ActionRef.String() + " does not exist")
	}
	return trigger, err
}

// switchRule turns a rule on or off.
func (h *Handler) switchRule(r *request) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	status, err := entity.DecodeStatus(body)
	if err != nil {
		return err
	}
	rule, trigger, err := h.ruleAndTrigger(r)
	if err != nil {
		return err
	}
	if trigger == nil {
		return &refusal{http.StatusNotFound, "Only rules with existing triggers can be activated"}
	}
	if trigger.RuleStatus(rule.ID()) != status {
		trigger.SetRule(rule.ID(), entity.Link{Action: rule.ActionRef, Status: status})
		if err := h.cfg.Catalog.Put(r.Context(), trigger); err != nil {
			return err
		}
	}
	return r.text(http.StatusOK, "OK")
}

func (h *Handler) deleteRule(r *request) error {
	rule, trigger, err := h.ruleAndTrigger(r)
	if err != nil {
		return err
	}
	if trigger != nil {
		trigger.DropRule(rule.ID())
		if err := h.cfg.Catalog.Put(r.Context(), trigger); err != nil {
			return err
		}
	}
	return h.deleted(r, rule, rule.AnswerRule(entity.Inactive))
}
