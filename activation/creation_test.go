package activation

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// oneCreation is as a scheduler of OpenWhisk's development branch printed it.
const oneCreation = `{"action":{"name":"hello","path":"guest","version":"0.0.3"},"creationId":"2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d","invocationNamespace":"guest","retryCount":0,"revision":"5-3f0d8b0f6a4c4b1f9a2e7d6c5b4a3928","rootSchedulerIndex":{"asString":"0"},"rpcPort":13001,"schedulerHost":"10.0.0.5","transid":["sid_containerCreation",1718000000000],"whiskActionMetaData":{"annotations":[{"key":"provide-api-key","value":false},{"key":"exec","value":"nodejs:20"}],"exec":{"binary":false,"kind":"nodejs:20"},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":"hello","namespace":"guest","parameters":[],"publish":false,"updated":1717990000000,"version":"0.0.3"}}`

const oneWarmUp = `{"action":{"name":"warmUp","path":"whisk.system"},"creationId":"00000000000000000000000000000001","invocationNamespace":"whisk.system","retryCount":0,"revision":null,"rootSchedulerIndex":{"asString":"0"},"rpcPort":0,"schedulerHost":"","transid":["sid_warmUp",1718000000000],"whiskActionMetaData":{"annotations":[],"exec":{"binary":false,"kind":"nodejs:20"},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":"warmUp","namespace":"whisk.system","parameters":[],"publish":false,"updated":1717990000000,"version":"0.0.1"}}`

const oneDeletion = `{"action":{"name":"hello","path":"guest","version":"0.0.3"},"invocationNamespace":"guest","revision":"5-3f0d8b0f6a4c4b1f9a2e7d6c5b4a3928","transid":["sid_containerDeletion",1718000000000],"whiskActionMetaData":{"annotations":[],"exec":{"binary":false,"kind":"nodejs:20"},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":"hello","namespace":"guest","parameters":[],"publish":false,"updated":1717990000000,"version":"0.0.3"}}`

func creation(t testing.TB, text string) *ContainerCreation {
	t.Helper()
	c, d, err := DecodeContainerMessage([]byte(text))
	check.NoError(t, err)
	check.That(check.Must(t), d == nil, "a creation was read as a deletion")
	return c
}

func TestContainerCreation(t *testing.T) {
	c := creation(t, oneCreation)
	want := ActionRef{Path: "guest", Name: "hello", Version: "0.0.3"}
	check.Equal(t, c.Queue.Action, want)
	check.Equal(t, c.Queue.Namespace, "guest")
	check.Equal(t, c.Queue.Revision, "5-3f0d8b0f6a4c4b1f9a2e7d6c5b4a3928")
	check.Equal(t, c.ID, "2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d")
	check.Equal(t, c.Retry, 0)
	check.Equal(t, c.Scheduler, "0")
	check.Equal(t, c.Endpoint, (Endpoint{"10.0.0.5", 13001}))
	check.That(t, !c.WarmUp(), "it counts as a warm-up")
	check.Equal(t, string(c.Encode()), oneCreation)
	a, err := c.MetaData.Decode(manifest(t))
	check.NoError(t, err)
	check.Equal(t, a.Limits, (Limits{60000, 256, 10, 1, 0}))
	check.Equal(t, a.FQN(), "guest/hello")
	check.Equal(t, a.Version, "0.0.3")
	check.Equal(t, a.Exec.Kind, "nodejs:20")
	check.Equal(t, a.Exec.Image, "openwhisk/action-nodejs-v20:nightly")
	check.That(check.Must(t), a.Exec.HasCode, "it runs by %+v, %s", a.Exec, a.Annotations)
	check.That(t, !a.Annotations.ProvidesAPIKey(), "it runs by %+v, %s", a.Exec, a.Annotations)
}

func TestContainerDeletion(t *testing.T) {
	c, d, err := DecodeContainerMessage([]byte(oneDeletion))
	check.NoError(t, err)
	check.That(check.Must(t), c == nil, "got %v, %v", c, err)
	check.Equal(t, string(d.Encode()), oneDeletion)
	q := d.Queue
	for name, c := range map[string]struct {
		change func(*Queue)
		want   bool
	}{
		"the same":            {func(*Queue) {}, true},
		"an older revision":   {func(q *Queue) { q.Revision = "4-ff" }, true},
		"a newer revision":    {func(q *Queue) { q.Revision = "10-00" }, false},
		"no revision":         {func(q *Queue) { q.Revision = "" }, true},
		"another version":     {func(q *Queue) { q.Action.Version = "0.0.2" }, true},
		"another action":      {func(q *Queue) { q.Action.Name = "other" }, false},
		"another's namespace": {func(q *Queue) { q.Namespace = "other" }, false},
	} {
		other := q
		c.change(&other)
		check.Equal(t, d.Covers(other), c.want, "%s: covered", name)
	}
}

func TestWarmUpCreation(t *testing.T) {
	check.That(t, creation(t, oneWarmUp).WarmUp(), "it does not count as one")
	for _, change := range []string{`"path":"whisk.system","version":"0.0.1"`, `"path":"whisk.system","binding":"guest/p"`, `"path":"guest"`} {
		text := strings.Replace(oneWarmUp, `"path":"whisk.system"`, change, 1)
		check.That(t, !creation(t, text).WarmUp(), "with %s it counts as one", change)
	}
}

// TestContainerMessageNeedsEveryField takes each member away in turn.
func TestContainerMessageNeedsEveryField(t *testing.T) {
	for _, path := range []string{
		"transid", "invocationNamespace", "action", "action.path", "action.name", "revision", "whiskActionMetaData",
		"rootSchedulerIndex", "rootSchedulerIndex.asString", "schedulerHost", "rpcPort", "retryCount",
	} {
		_, _, err := DecodeContainerMessage(without(t, oneCreation, path))
		check.That(t, err != nil, "a creation without %s is read", path)
	}
	for _, path := range []string{"transid", "invocationNamespace", "action", "revision", "whiskActionMetaData"} {
		_, _, err := DecodeContainerMessage(without(t, oneDeletion, path))
		check.That(t, err != nil, "a deletion without %s is read", path)
	}
	for _, change := range []string{`"revision":"5/3`, `"invocationNamespace":"a/b`, `"creationId":"x`, `"asString":"a/b`} {
		key, _, _ := strings.Cut(change, ":")
		_, _, err := DecodeContainerMessage([]byte(strings.Replace(oneCreation, key+`:"`, change, 1)))
		check.That(t, err != nil, "%s... is read, and would break keys", change)
	}
	c, d, err := DecodeContainerMessage(without(t, oneCreation, "creationId"))
	check.NoError(t, err, "without an id it is not a deletion")
	check.That(t, c == nil, "without an id it is not a deletion: %v, %v, %v", c, d, err)
	check.That(t, d != nil, "without an id it is not a deletion: %v, %v, %v", c, d, err)
}

func TestActionMetaData(t *testing.T) {
	kind := func(exec string) ActionMetaData {
		text := strings.Replace(oneCreation, `{"binary":false,"kind":"nodejs:20"}`, exec, 1)
		return creation(t, text).MetaData
	}
	for exec, want := range map[string]Exec{
		`{"kind":"nodejs:default","binary":true,"main":"f"}`:                           {Kind: "nodejs:20", Image: "openwhisk/action-nodejs-v20:nightly", Main: "f", Binary: true, HasCode: true, Sentinels: true},
		`{"kind":"blackbox","image":"me/mine:1","binary":false}`:                       {Kind: Blackbox, Image: "me/mine:1", Pull: true},
		`{"kind":"blackbox","image":"openwhisk/dockerskeleton:nightly","binary":true}`: {Kind: Blackbox, Image: "openwhisk/dockerskeleton:nightly", Binary: true, Sentinels: true},
	} {
		a, err := kind(exec).Decode(manifest(t))
		if err != nil {
			t.Errorf("%s: %v", exec, err)
		} else if a.Exec != want {
			t.Errorf("%s is %+v, want %+v", exec, a.Exec, want)
		}
	}
	for exec, want := range map[string]error{
		`{"kind":"sequence","components":[]}`:           ErrNotExecutable,
		`{"kind":"cobol:1","binary":false}`:             ErrIncompatible,
		`{"kind":"java:8","binary":true}`:               ErrIncompatible,
		`{"kind":"blackbox","image":":","binary":true}`: ErrIncompatible,
		`{"binary":true}`:                               ErrIncompatible,
	} {
		_, err := kind(exec).Decode(manifest(t))
		check.ErrorIs(t, err, want, "%s", exec)
	}
}

// TestQueueRepeatsTheAction: a fetch must have the action byte for byte.
func TestQueueRepeatsTheAction(t *testing.T) {
	const action = `{"path":"guest/p", "name":"hello","binding":"me/p","version":"0.0.3"}`
	text := strings.Replace(oneCreation, `{"name":"hello","path":"guest","version":"0.0.3"}`, action, 1)
	q := creation(t, text).Queue
	check.Equal(t, string(q.ActionJSON()), action)
	check.Equal(t, string(q.RevisionJSON()), `"5-3f0d8b0f6a4c4b1f9a2e7d6c5b4a3928"`, "the revision")
	made := NewQueue("guest", q.Action, "")
	check.Equal(t, string(made.ActionJSON()), `{"binding":"me/p","name":"hello","path":"guest/p","version":"0.0.3"}`, "made anew it")
	check.Equal(t, string(made.RevisionJSON()), "null", "no revision")
}

// TestParseQueue reads the queue in a fetch as schedulers do.
func TestParseQueue(t *testing.T) {
	want := creation(t, oneCreation).Queue
	got, err := ParseQueue("guest", want.ActionJSON(), want.RevisionJSON())
	check.NoError(t, err)
	check.That(t, got.Same(want), "got %+v, %v", got, err)
	got, err = ParseQueue("guest", want.ActionJSON(), []byte("null"))
	check.NoError(t, err, "without a revision")
	check.Equal(t, got.Revision, "", "without a revision")
	check.That(t, !got.Same(want), "without a revision: %+v, %v", got, err)
	for action, revision := range map[string]string{
		``: `null`, `{}`: `null`, `"hello"`: `null`, `{"name":"hello","path":"guest"}`: `5-3f`, `{"name":"hello","path":"other"}`: ``,
	} {
		got, err := ParseQueue("guest", []byte(action), []byte(revision))
		check.That(t, err != nil, "%s, %s is read as %+v", action, revision, got)
	}
}

// TestContainerMessagesPrintNoSecret: an action's parameters can be secret.
func TestContainerMessagesPrintNoSecret(t *testing.T) {
	const secret = "hush-hush"
	text := strings.Replace(oneCreation, `"parameters":[]`, `"parameters":[{"key":"k","value":"`+secret+`"}]`, 1)
	c := creation(t, text)
	_, d, err := DecodeContainerMessage(without(t, text, "creationId"))
	check.NoError(t, err)
	check.Contains(check.Must(t), string(c.MetaData.JSON()), secret, "the metadata has lost it")
	var log bytes.Buffer
	ack := ContainerCreationAck{Creation: c}
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("seen", "creation", c, "value", *c, "deletion", d, "ack", ack, "metadata", c.MetaData)
	}
	fmt.Fprintf(&log, "%v %+v %#v %s %+v %#v %+v", *c, *c, *c, c.MetaData, *d, *d, ack)
	check.Lacks(t, log.String(), secret, "printed it: %s", log.String())
	broken := strings.Replace(text, `"publish":false`, `"publish":"`+secret+`"`, 1)
	_, err = creation(t, broken).MetaData.Decode(manifest(t))
	check.That(check.Must(t), err != nil, "the error is %v", err)
	check.Lacks(t, err.Error(), secret)
}

func FuzzDecodeContainerMessage(f *testing.F) {
	for _, text := range []string{oneCreation, oneWarmUp, oneDeletion} {
		f.Add([]byte(text))
	}
	m := manifest(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, d, err := DecodeContainerMessage(data)
		if err != nil {
			return
		}
		if c == nil && d == nil {
			t.Fatal("neither a creation nor a deletion")
		}
		write := func(c *ContainerCreation, d *ContainerDeletion) []byte {
			if c == nil {
				return d.Encode()
			}
			_, _ = c.MetaData.Decode(m)
			return c.Encode()
		}
		stable(t, write(c, d), func(b []byte) ([]byte, error) {
			c, d, err := DecodeContainerMessage(b)
			if err != nil {
				return nil, err
			}
			return write(c, d), nil
		})
	})
}

func FuzzParseQueue(f *testing.F) {
	f.Add(`{"name":"hello","path":"guest","version":"0.0.3"}`, `"5-3f"`)
	f.Add(`"guest/hello"`, `null`)
	f.Fuzz(func(t *testing.T, action, revision string) {
		q, err := ParseQueue("guest", []byte(action), []byte(revision))
		if err != nil {
			return
		}
		again, err := ParseQueue("guest", q.ActionJSON(), q.RevisionJSON())
		check.NoError(t, err)
		check.That(check.Must(t), again.Same(q), "%+v became %+v, %v", q, again, err)
	})
}
