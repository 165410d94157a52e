package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Invocation holds the data of one activation for its action.
type Invocation struct {
	Message *activation.Message
	APIKey  bool                // the action may get the caller's keys
	GPU     *container.GPU      // the container's device; nil for a CPU action
	Env     []activation.Member // init arguments, for /init only
	Value   json.RawMessage     // the other parameters
}

// NewInvocation divides the parameters between /init and /run: /init gets only the init
// arguments that the message names, and /run the others. content is the content of the
// message with decrypted parameters.
func NewInvocation(m *activation.Message, content json.RawMessage, apiKey bool) (Invocation, error) {
	v := Invocation{Message: m, APIKey: apiKey, Value: content}
	if len(content) == 0 {
		v.Value = json.RawMessage("{}")
	}
	if len(m.InitArgs) == 0 || v.Value[0] != '{' {
		return v, nil
	}
	all, err := activation.Members(v.Value)
	if err != nil {
		return v, fmt.Errorf("divide parameters of activation %s: %w", m.ActivationID, err)
	}
	value := members{out: []byte{'{'}}
	for _, p := range all {
		if slices.Contains(m.InitArgs, p.Key) {
			v.Env = append(v.Env, p)
			continue
		}
		value.raw(p.Key, p.Value)
	}
	v.Value = value.end()
	return v, nil
}

// InitBody returns the body of /init for an action with loaded code. The deadline is
// passed to the action, not enforced.
func (v Invocation) InitBody(a *activation.Action, deadline time.Time) []byte {
	code := a.Exec.Code
	value := members{out: append(make([]byte, 0, 1024+len(code)+len(code)/8), `{"value":{`...)}
	value.raw("binary", strconv.AppendBool(nil, a.Exec.Binary))
	if a.Exec.HasCode {
		value.text("code", code)
	}
	value.name("env")
	value.out = v.appendEnv(value.out, deadline)
	value.text("main", a.Exec.Entry())
	value.text("name", a.Name)
	return append(value.end(), '}')
}

// appendEnv appends the environment of /init: the init arguments, the runtime's own
// variables and the variables of the GPU. An init argument never replaces one of the
// others.
//
// The container already has the GPU's variables, but OpenWhisk's action-loop proxy
// starts the action with an empty environment and adds only the env of /init.
func (v Invocation) appendEnv(dst []byte, deadline time.Time) []byte {
	own := v.context(deadline)
	env := members{out: append(dst, '{')}
	for _, p := range v.Env {
		if isReserved(own, p.Key) || v.GPU.Owns(p.Key) {
			continue
		}
		env.text(p.Key, envText(p.Value))
	}
	for _, p := range own {
		env.text(envName(p.Key), envText(p.Value))
	}
	for name, value := range v.GPU.Variables() {
		env.text(name, value)
	}
	return env.end()
}

// isReserved reports whether one of the runtime's own variables has this name.
func isReserved(own []activation.Member, name string) bool {
	return strings.HasPrefix(name, "__OW_") && slices.ContainsFunc(own, func(p activation.Member) bool {
		return envName(p.Key) == name
	})
}

// envName returns the name of the variable for a field of the context.
func envName(key string) string { return "__OW_" + strings.ToUpper(key) }

// envText converts a JSON value to the text of an environment variable: strings
// unchanged, null as "", other values as compact JSON.
func envText(value json.RawMessage) string {
	canonical, err := activation.Canonical(value)
	if err != nil || string(canonical) == "null" {
		return ""
	}
	var s string
	if canonical[0] == '"' && json.Unmarshal(canonical, &s) == nil {
		return s
	}
	return string(canonical)
}

// context returns the fields about the activation in /init and /run, sorted by name,
// followed by the additional keys of an installation.
func (v Invocation) context(deadline time.Time) []activation.Member {
	m := v.Message
	version := json.RawMessage("null")
	if m.Action.Version != "" {
		version = quote(m.Action.Version)
	}
	out := append(make([]activation.Member, 0, 8),
		activation.Member{Key: "action_name", Value: quote("/" + m.Action.FQN())},
		activation.Member{Key: "action_version", Value: version},
		activation.Member{Key: "activation_id", Value: quote(string(m.ActivationID))})
	if v.APIKey {
		for _, k := range m.User.AuthKey.Members() {
			if !reserved(k.Key) {
				out = append(out, k)
			}
		}
	}
	return append(out,
		activation.Member{Key: "deadline", Value: quote(strconv.FormatInt(deadline.UnixMilli(), 10))},
		activation.Member{Key: "namespace", Value: quote(m.User.Namespace.Name)},
		activation.Member{Key: "transaction_id", Value: quote(m.TransID.ID())})
}

func quote(s string) json.RawMessage { return activation.AppendString(nil, s) }

// reserved reports whether a field must not be replaced by an authentication key.
func reserved(key string) bool {
	switch key {
	case "action_name", "action_version", "activation_id", "deadline", "namespace",
		"transaction_id", "value":
		return true
	}
	return false
}

// RunBody returns the body of /run.
func (v Invocation) RunBody(deadline time.Time) []byte {
	body := members{out: append(make([]byte, 0, 512+len(v.Value)), '{')}
	for _, p := range v.context(deadline) {
		body.raw(p.Key, p.Value)
	}
	body.raw("value", v.Value)
	return body.end()
}

// members writes the members of an object in the order of the additions.
type members struct{ out []byte }

func (o *members) name(key string) {
	if o.out[len(o.out)-1] != '{' {
		o.out = append(o.out, ',')
	}
	o.out = append(activation.AppendString(o.out, key), ':')
}

func (o *members) raw(key string, value []byte) {
	o.name(key)
	o.out = append(o.out, value...)
}

func (o *members) text(key, value string) {
	o.name(key)
	o.out = activation.AppendString(o.out, value)
}

func (o *members) end() []byte { return append(o.out, '}') }
