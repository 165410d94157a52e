package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// The acks of oneCreation as the original's classes print them.
const (
	oneCreationAck = `{"action":{"name":"hello","path":"guest","version":"0.0.3"},"actionMetaData":{"annotations":[{"key":"provide-api-key","value":false},{"key":"exec","value":"nodejs:20"}],"exec":{"binary":false,"kind":"nodejs:20"},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":"hello","namespace":"guest","parameters":[],"publish":false,"updated":1717990000000,"version":"0.0.3"},"creationId":"2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d","invocationNamespace":"guest","retryCount":0,"revision":"5-3f0d8b0f6a4c4b1f9a2e7d6c5b4a3928","rootInvokerIndex":{"dedicatedNamespaces":[],"instance":0,"instanceType":"invoker","tags":[],"uniqueName":"0","userMemory":"2147483648 B"},"rpcPort":13001,"schedulerHost":"10.0.0.5","transid":["sid_containerCreation",1718000000000]}`
	creationReason = `creationId: 2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d, invoker[invoker0/0] doesn't have enough resource for container: guest/hello@0.0.3`
)

func creationAck(t testing.TB) ContainerCreationAck {
	t.Helper()
	memory, err := ParseSize("2147483648 B")
	check.NoError(t, err)
	return ContainerCreationAck{Creation: creation(t, oneCreation), Instance: Instance{UniqueName: "0", UserMemory: memory}}
}

func TestContainerCreationAck(t *testing.T) {
	ack := creationAck(t)
	check.Equal(t, string(ack.Encode()), oneCreationAck)
	ack.Error, ack.Reason = ResourceNotEnough, creationReason
	want := strings.Replace(oneCreationAck, `,"invocationNamespace"`, `,"error":"ResourceNotEnoughError","invocationNamespace"`, 1)
	want = strings.Replace(want, `,"retryCount"`, `,"reason":"`+creationReason+`","retryCount"`, 1)
	check.Equal(t, string(ack.Encode()), want, "a failure")
}

// TestCreationErrors: the texts are the same as on the wire. Schedulers do not know two
// of the errors that the original invoker writes.
func TestCreationErrors(t *testing.T) {
	for text, retried := range map[string]bool{
		"ResourceNotEnoughError": true, "WhiskError": true, "UnknownError": true, "TimeoutError": true,
		"NoAvailableInvokersError": true, "NoAvailableResourceInvokersError": true, "ZeroNamespaceLimit": true,
		"BlackBoxError": false, "DBFetchError": false, "InvalidActionLimitError": false,
		"NonExecutbleActionError": false, "TooManyConcurrentRequests": false,
	} {
		ack := creationAck(t)
		ack.Error, ack.Reason = CreationError(text), "why"
		got, err := DecodeContainerCreationAck(ack.Encode())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		check.Equal(t, got.Error, CreationError(text), "%s is read", text)
		check.Equal(t, got.Reason, "why", "%s is read", text)
		check.Equal(t, got.Error.Retried(), retried, "%s: tried again", text)
	}
	for _, text := range []CreationError{"ShuttingDownError", "NonExecutableActionError", "whatever"} {
		ack := creationAck(t)
		ack.Error = text
		_, err := DecodeContainerCreationAck(ack.Encode())
		check.That(t, err != nil, "%s is read", text)
		check.That(t, !text.Parsable(), "%s counts as known", text)
	}
	for _, e := range []CreationError{
		ResourceNotEnough, CreationFailed, CreationUnknown, CreationTimeout, BlackboxFailed, ActionUnreadable, InvalidActionLimit, NonExecutable,
	} {
		check.That(t, e.Parsable(), "schedulers do not know %s", e)
	}
}

func TestContainerCreationAckNeedsEveryField(t *testing.T) {
	for _, path := range []string{
		"transid", "invocationNamespace", "action", "revision", "actionMetaData", "creationId",
		"rootInvokerIndex", "schedulerHost", "rpcPort", "retryCount",
	} {
		_, err := DecodeContainerCreationAck(without(t, oneCreationAck, path))
		check.That(t, err != nil, "an ack without %s is read", path)
	}
}

func FuzzDecodeContainerCreationAck(f *testing.F) {
	f.Add([]byte(oneCreationAck))
	ack := creationAck(f)
	ack.Error, ack.Reason = ResourceNotEnough, creationReason
	f.Add(ack.Encode())
	fuzzCodec(f, DecodeContainerCreationAck, ContainerCreationAck.Encode, func(a ContainerCreationAck) { a.Error.Retried() })
}
