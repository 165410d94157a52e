package activation

import (
	"fmt"
	"maps"
	"slices"
)

// CreationError is why a container could not be made, in the words that a
// scheduler understands. It drops an ack with any other, and with it the job
// until its time is over (ContainerCreationError.scala).
type CreationError string

// Errors of the first group have the creation tried again, on any invoker. Those of
// the second end it: without a container of the queue, all its activations
// fail with the reason as the developer's error. NonExecutable is misspelt as
// the scheduler's list has it.
const (
	NoCreationError   CreationError = ""
	ResourceNotEnough CreationError = "ResourceNotEnoughError"
	CreationFailed    CreationError = "WhiskError"
	CreationUnknown   CreationError = "UnknownError"
	CreationTimeout   CreationError = "TimeoutError" // schedulers' own

	BlackboxFailed     CreationError = "BlackBoxError"
	ActionUnreadable   CreationError = "DBFetchError"
	InvalidActionLimit CreationError = "InvalidActionLimitError"
	NonExecutable      CreationError = "NonExecutbleActionError"
)

// creationErrors is all that schedulers can parse, and whether the error is
// OpenWhisk's own, so that the creation is tried again.
var creationErrors = map[CreationError]bool{
	ResourceNotEnough: true, CreationFailed: true, CreationUnknown: true, CreationTimeout: true,
	"NoAvailableInvokersError": true, "NoAvailableResourceInvokersError": true, "ZeroNamespaceLimit": true,
	BlackboxFailed: false, ActionUnreadable: false, InvalidActionLimit: false, NonExecutable: false,
	"TooManyConcurrentRequests": false,
}

// Parsable reports whether a scheduler understands the error.
func (e CreationError) Parsable() bool {
	_, ok := creationErrors[e]
	return ok
}

// Retried reports whether the scheduler tries the creation again.
func (e CreationError) Retried() bool { return creationErrors[e] }

// ContainerCreationAck is an invoker's answer to a creation; each has one.
type ContainerCreationAck struct {
	Creation *ContainerCreation // of which all but the scheduler's id is repeated
	Instance Instance
	Error    CreationError // empty: a container fetches
	Reason   string        // where the error ends the job, the users read it
}

// CreationAckTopic is the topic of a scheduler's acks, without a prefix.
func CreationAckTopic(scheduler string) string { return "creationAck" + scheduler }

// Encode writes the ack. The metadata has another name than in the creation.
func (a ContainerCreationAck) Encode() []byte {
	c := a.Creation
	o := newObject(make([]byte, 0, 768+len(c.MetaData.raw)))
	o.raw("action", c.Queue.ActionJSON())
	o.raw("actionMetaData", c.MetaData.JSON())
	o.str("creationId", string(c.ID))
	o.optional("error", string(a.Error))
	o.str("invocationNamespace", c.Queue.Namespace)
	if a.Error != NoCreationError {
		o.str("reason", a.Reason)
	}
	o.int("retryCount", int64(c.Retry))
	o.raw("revision", c.Queue.RevisionJSON())
	o.key("rootInvokerIndex")
	o.out = a.Instance.append(o.out)
	o.int("rpcPort", int64(c.Endpoint.Port))
	o.str("schedulerHost", c.Endpoint.Host)
	o.raw("transid", c.TransID.JSON())
	return o.end()
}

// DecodeContainerCreationAck reads an ack as a scheduler does: an error that
// its list does not have makes the ack unreadable.
func DecodeContainerCreationAck(data []byte) (ContainerCreationAck, error) {
	c := &ContainerCreation{}
	a := ContainerCreationAck{Creation: c}
	p := newParser(data)
	p.fields(
		required("transid", func() { c.TransID = p.transID() }),
		required("creationId", func() { c.ID = p.id() }),
		required("invocationNamespace", func() { c.Queue.Namespace = p.name() }),
		required("action", func() { p.queueAction(&c.Queue) }),
		required("revision", func() { c.Queue.Revision = p.revision() }),
		required("actionMetaData", func() { c.MetaData = ActionMetaData{p.rawObject()} }),
		required("rootInvokerIndex", func() { a.Instance = p.instance() }),
		required("schedulerHost", func() { c.Endpoint.Host = p.str() }),
		required("rpcPort", func() { c.Endpoint.Port = p.wholeInt() }),
		required("retryCount", func() { c.Retry = p.wholeInt() }),
		optional("error", func() { a.Error = p.creationError() }),
		optional("reason", func() { a.Reason = p.str() }),
	)
	if err := p.end(); err != nil {
		return ContainerCreationAck{}, fmt.Errorf("decode container creation ack: %w", err)
	}
	return a, nil
}

func (p *parser) creationError() CreationError {
	e := CreationError(p.str())
	if p.err == nil && !e.Parsable() {
		p.failf("want an error that schedulers know, one of %v", slices.Sorted(maps.Keys(creationErrors)))
	}
	return e
}
