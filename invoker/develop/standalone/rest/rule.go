package rest

import (
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

func (h *Handler) triggers() collection {
	return collection{kind: entity.Trigger, answer: plainAnswer}
}

// A rule lies in its own document, its state and its action also in its
// trigger's.
func (h *Handler) rules() collection {
	return collection{kind: entity.Rule, link: h.linkRule, unlink: h.unlinkRule, answer: h.ruleAnswer}
}

// triggerOf reads the trigger of a rule, nil when that is gone.
func (h *Handler) triggerOf(r *request, rule *entity.Entity) (*entity.Entity, error) {
	trigger, err := h.cfg.Catalog.Get(r.Context(), entity.Trigger, rule.TriggerRef)
	if absent(err) {
		return nil, nil
	}
	return trigger, err
}

// ruleAnswer is the rule with its state.
func (h *Handler) ruleAnswer(r *request, rule *entity.Entity) ([]byte, error) {
	trigger, err := h.triggerOf(r, rule)
	return rule.AnswerRule(trigger.RuleStatus(rule.ID())), err
}

// linkRule writes the rule into its trigger, and takes it out of the trigger
// that it had before.
func (h *Handler) linkRule(r *request, rule, old *entity.Entity) error {
	trigger, err := h.checkRule(r, rule)
	if err != nil {
		return err
	}
	status := entity.Active
	if old != nil {
		before, err := h.triggerOf(r, old)
		if err != nil {
			return err
		}
		status = before.RuleStatus(rule.ID())
		if before != nil && old.TriggerRef != rule.TriggerRef {
			if err := h.unlinkRule(r, old); err != nil {
				return err
			}
		}
	}
	trigger.SetRule(rule.ID(), entity.Link{Action: rule.ActionRef, Status: status})
	return h.cfg.Catalog.Put(r.Context(), trigger)
}

// unlinkRule takes the rule out of its trigger.
func (h *Handler) unlinkRule(r *request, rule *entity.Entity) error {
	trigger, err := h.triggerOf(r, rule)
	if err != nil || trigger == nil {
		return err
	}
	trigger.DropRule(rule.ID())
	return h.cfg.Catalog.Put(r.Context(), trigger)
}

// checkRule refuses a rule whose trigger or action is not there.
func (h *Handler) checkRule(r *request, rule *entity.Entity) (*entity.Entity, error) {
	if err := r.own(rule.TriggerRef.Namespace()); err != nil {
		return nil, err
	}
	if err := h.mayUse(r, rule.ActionRef); err != nil {
		return nil, err
	}
	trigger, err := h.triggerOf(r, rule)
	if err != nil {
		return nil, err
	}
	if trigger == nil {
		return nil, bad("trigger /" + rule.TriggerRef.String() + " does not exist")
	}
	_, err = h.cfg.Catalog.Resolve(r.Context(), rule.ActionRef)
	if absent(err) {
		return nil, bad("action /" + rule.ActionRef.String() + " does not exist")
	}
	return trigger, err
}

// switchRule turns a rule on or off.
func (h *Handler) switchRule(r *request) error {
	body := r.body()
	if r.err != nil {
		return r.err
	}
	status, err := entity.DecodeStatus(body)
	if err != nil {
		return err
	}
	rule, err := h.read(r, entity.Rule)
	if err != nil {
		return err
	}
	trigger, err := h.triggerOf(r, rule)
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
