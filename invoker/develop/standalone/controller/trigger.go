package controller

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// Event is the firing of a trigger.
type Event struct {
	User    activation.Identity
	TransID activation.TransID
	Trigger *entity.Entity
	Payload json.RawMessage // an object, nil for none
	// Headers are those of the request, which the actions get.
	Headers json.RawMessage
}

// Fire runs the actions of the trigger's active rules and writes the record of the
// event. It returns at once. ok is false if no rule is active; there is no record then.
func (c *Controller) Fire(e Event) (id activation.ID, ok bool, err error) {
	rules := slices.Collect(maps.Values(e.Trigger.Rules))
	if !slices.ContainsFunc(rules, func(l entity.Link) bool { return l.Status == entity.Active }) {
		return "", false, nil
	}
	id = newID()
	start := now()
	err = c.begin(func() { c.fire(c.ctx, e, id, start) })
	return id, err == nil, err
}

func (c *Controller) fire(ctx context.Context, e Event, id activation.ID, start int64) {
	logs := []string{}
	for _, rule := range slices.Sorted(maps.Keys(e.Trigger.Rules)) {
		line, _ := json.Marshal(c.applyRule(ctx, e, rule, e.Trigger.Rules[rule])) // of plain fields
		logs = append(logs, string(line))
	}
	result := e.Payload
	if result == nil {
		result = json.RawMessage("{}")
	}
	c.store(ctx, e.User, &activation.Record{
		ActivationID: id, Namespace: e.User.Namespace.Name, Name: e.Trigger.Name, Subject: e.User.Subject, Version: e.Trigger.Version,
		Start:    start, // and no end: OpenWhisk's records of triggers have 0
		Response: activation.Response{Result: result}, Logs: logs,
	})
}

// ruleResult is a line in the record of a trigger.
type ruleResult struct {
	StatusCode   int           `json:"statusCode"`
	Success      bool          `json:"success"`
	ActivationID activation.ID `json:"activationId,omitempty"`
	Error        string        `json:"error,omitempty"`
	Rule         string        `json:"rule"`
	Action       string        `json:"action"`
}

func (c *Controller) applyRule(ctx context.Context, e Event, rule string, link entity.Link) ruleResult {
	result := ruleResult{StatusCode: activation.StatusApplicationError, Rule: rule, Action: link.Action.String()}
	if link.Status != entity.Active {
		result.Error = "Rule '" + rule + "' is inactive, action '" + result.Action + "' was not activated."
		return result
	}
	out, err := c.runRule(ctx, e, link.Action)
	switch {
	case err == nil:
		result.StatusCode, result.Success, result.ActivationID = activation.StatusSuccess, true, out.ID
	case errors.Is(err, couchdb.ErrNotFound):
		result.Error = "The requested resource does not exist."
	default:
		c.log.Warn("rule was not applied", "rule", rule, "error", err)
		result.StatusCode, result.Error = activation.StatusWhiskError, "There was an internal server error."
	}
	return result
}

func (c *Controller) runRule(ctx context.Context, e Event, action entity.Ref) (Outcome, error) {
	a, err := c.cfg.DB.Resolve(ctx, action)
	if err != nil {
		return Outcome{}, err
	}
	given, _ := parametersOf(e.Payload) // the API has checked that it is an object
	args := given.Over(e.Trigger.Parameters)
	if e.Headers != nil {
		args = args.Set(activation.Parameter{Key: "__ow_headers", Value: e.Headers})
	}
	return c.Invoke(ctx, Call{User: e.User, TransID: e.TransID, Action: a, Payload: args.Object()})
}
