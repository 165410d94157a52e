package activation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ContainerCreation is a scheduler's order to an invoker: make a container, or
// resume a paused one, that fetches the activations of one queue. It shares
// memory with the bytes it was decoded from.
type ContainerCreation struct {
	TransID   TransID
	ID        ID // the same in all retries
	Queue     Queue
	MetaData  ActionMetaData
	Scheduler string // id, which names the topic of the ack
	Endpoint  Endpoint
	Retry     int
}

// ContainerDeletion is a scheduler's order to end the containers of an action
// whose revision is not after the queue's.
type ContainerDeletion struct {
	TransID  TransID
	Queue    Queue
	MetaData ActionMetaData
}

// Endpoint is where a scheduler answers gRPC.
type Endpoint struct {
	Host string
	Port int
}

// Queue names a scheduler's queue: each namespace that invokes an action has one
// for each revision of it.
type Queue struct {
	Namespace string    // that invokes
	Action    ActionRef // with its binding as the queue has it
	Revision  string    // empty: null

	name json.RawMessage // the action as it was read
}

// NewQueue makes the name of a queue.
func NewQueue(namespace string, action ActionRef, revision string) Queue {
	return Queue{Namespace: namespace, Action: action, Revision: revision}
}

// ParseQueue reads the name of a queue as a fetch has it: the JSON of the action and
// of the revision.
func ParseQueue(namespace string, action, revision []byte) (Queue, error) {
	q := Queue{Namespace: namespace}
	p := newParser(action)
	p.queueAction(&q)
	if err := p.end(); err != nil {
		return Queue{}, fmt.Errorf("read the action of a fetch: %w", err)
	}
	p = newParser(revision)
	q.Revision = p.revision()
	if err := p.end(); err != nil {
		return Queue{}, fmt.Errorf("read the revision of a fetch: %w", err)
	}
	return q, nil
}

// ActionJSON is the action as the creation has it. A fetch must repeat it
// unchanged: the queue compares version and binding, too (MemoryQueue).
func (q Queue) ActionJSON() json.RawMessage {
	if q.name == nil {
		return q.Action.append(nil)
	}
	return q.name
}

// RevisionJSON is the revision as a fetch has it: with quotes, or null.
func (q Queue) RevisionJSON() json.RawMessage {
	if q.Revision == "" {
		return json.RawMessage("null")
	}
	return AppendString(nil, q.Revision)
}

// Same reports whether two queues are one for a fetch: name, version, binding
// and revision.
func (q Queue) Same(other Queue) bool {
	return q.Namespace == other.Namespace && q.Action == other.Action && q.Revision == other.Revision
}

// ActionMetaData is an action without its code, as a scheduler sends it. Its
// parameters can be secret: it does not print itself.
type ActionMetaData struct{ raw json.RawMessage }

// NewActionMetaData keeps the JSON of an action's metadata.
func NewActionMetaData(json json.RawMessage) ActionMetaData { return ActionMetaData{json} }

// JSON is the metadata as it was read. Callers must not change it, nor log it.
func (m ActionMetaData) JSON() json.RawMessage {
	if m.raw == nil {
		return json.RawMessage("{}")
	}
	return m.raw
}

// String hides the metadata, so that it reaches no log.
func (m ActionMetaData) String() string { return "(secret)" }

// GoString hides the metadata, as String does.
func (m ActionMetaData) GoString() string { return "(secret)" }

// WarmUpQueue returns the queue of warm-ups (WarmUp.scala): a fetch asks for it to open
// a connection early, and a scheduler's creation names it to warm up an invoker's
// topic.
func WarmUpQueue() Queue {
	const system = "whisk.system"
	return NewQueue(system, ActionRef{Path: system, Name: "warmUp"}, "")
}

// WarmUp reports whether the creation only warms up the topic. Such a creation creates
// no container and is not acknowledged.
func (c *ContainerCreation) WarmUp() bool { return c.Queue.Action == WarmUpQueue().Action }

// Covers reports whether the deletion ends the containers of a queue: those of
// the same namespace and action, of any version, whose revision is not newer.
func (d *ContainerDeletion) Covers(q Queue) bool {
	return q.Namespace == d.Queue.Namespace && q.Action.FQN() == d.Queue.Action.FQN() &&
		generation(q.Revision) <= generation(d.Queue.Revision)
}

// generation is how often a document was written, which its revision begins
// with; none is the oldest (DocInfo.scala).
func generation(revision string) int {
	number, _, _ := strings.Cut(revision, "-")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}

// DecodeContainerMessage decodes a scheduler's message to an invoker: a creation or a
// deletion. The other result is nil. The result refers to data, so the caller must not
// change data afterwards.
func DecodeContainerMessage(data []byte) (*ContainerCreation, *ContainerDeletion, error) {
	c := &ContainerCreation{}
	creation := false
	missing := make([]string, 0, 4) // the fields that only a creation has
	p := newParser(data)
	part := func(key string, read func()) field {
		missing = append(missing, key)
		return allowed(key, func() {
			missing = slices.DeleteFunc(missing, func(k string) bool { return k == key })
			read()
		})
	}
	p.fields(
		required("transid", func() { c.TransID = p.transID() }),
		required("invocationNamespace", func() { c.Queue.Namespace = p.name() }),
		required("action", func() { p.queueAction(&c.Queue) }),
		required("revision", func() { c.Queue.Revision = p.revision() }),
		required("whiskActionMetaData", func() { c.MetaData = ActionMetaData{p.rawObject()} }),
		allowed("creationId", func() { creation = true; c.ID = p.id() }),
		part("rootSchedulerIndex", func() { c.Scheduler = p.schedulerID() }),
		part("schedulerHost", func() { c.Endpoint.Host = p.str() }),
		part("rpcPort", func() { c.Endpoint.Port = p.wholeInt() }),
		part("retryCount", func() { c.Retry = p.wholeInt() }),
	)
	p.require(!creation || len(missing) == 0, strings.Join(missing, ", "))
	if err := p.end(); err != nil {
		return nil, nil, fmt.Errorf("decode container message: %w", err)
	}
	if !creation {
		return nil, &ContainerDeletion{c.TransID, c.Queue, c.MetaData}, nil
	}
	return c, nil, nil
}

// queueAction reads the action of a queue, and keeps its text.
func (p *parser) queueAction(q *Queue) {
	from := p.start()
	q.Action = p.actionRef()
	q.name = p.since(from)
}

// revision reads a revision, empty for null. It becomes one part of keys.
func (p *parser) revision() string {
	if p.null() {
		return ""
	}
	s := p.str()
	if p.err == nil && strings.Contains(s, "/") {
		p.failf("want a revision")
	}
	return s
}

// schedulerID reads the object that names a scheduler.
func (p *parser) schedulerID() string {
	var id string
	p.fields(required("asString", func() { id = p.str() }))
	if p.err == nil && !validControllerID(id) { // it is a part of a topic's name
		p.failf("want a scheduler id")
	}
	return id
}

// Encode writes the creation as a scheduler does.
func (c *ContainerCreation) Encode() []byte {
	o := newObject(make([]byte, 0, 512+len(c.MetaData.raw)))
	o.raw("action", c.Queue.ActionJSON())
	o.str("creationId", string(c.ID))
	o.str("invocationNamespace", c.Queue.Namespace)
	o.int("retryCount", int64(c.Retry))
	o.raw("revision", c.Queue.RevisionJSON())
	o.key("rootSchedulerIndex")
	s := newObject(o.out)
	s.str("asString", c.Scheduler)
	o.out = s.end()
	o.int("rpcPort", int64(c.Endpoint.Port))
	o.str("schedulerHost", c.Endpoint.Host)
	o.raw("transid", c.TransID.JSON())
	o.raw("whiskActionMetaData", c.MetaData.JSON())
	return o.end()
}

// Encode writes the deletion as a scheduler does.
func (d *ContainerDeletion) Encode() []byte {
	o := newObject(make([]byte, 0, 384+len(d.MetaData.raw)))
	o.raw("action", d.Queue.ActionJSON())
	o.str("invocationNamespace", d.Queue.Namespace)
	o.raw("revision", d.Queue.RevisionJSON())
	o.raw("transid", d.TransID.JSON())
	o.raw("whiskActionMetaData", d.MetaData.JSON())
	return o.end()
}
