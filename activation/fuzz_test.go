package activation

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// seed adds the captured values of a topic.
func seed(f *testing.F, topic string) {
	f.Helper()
	for _, v := range examples(f, topic) {
		f.Add([]byte(v))
	}
	for _, c := range capturedRecords(f) {
		if c.Topic == topic && len(c.Value) < 2000 {
			f.Add([]byte(c.Value))
		}
	}
}

// stable requires that an encoded value can be decoded, and that encoding it again
// gives the same bytes.
func stable(t *testing.T, first []byte, again func([]byte) ([]byte, error)) {
	t.Helper()
	check.That(check.Must(t), json.Valid(first), "wrote no json: %q", first)
	check.That(check.Must(t), utf8.Valid(first), "wrote no json: %q", first)
	second, err := again(first)
	check.NoError(t, err, "read back: %s", first)
	check.Equal(check.Must(t), string(first), string(second), "not stable:\n%s\n%s", first, second)
}

// fuzzCodec decodes arbitrary bytes. It calls use with each decoded value and requires
// that the value is stable.
func fuzzCodec[T any](f *testing.F, decode func([]byte) (T, error), encode func(T) []byte, use func(T)) {
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decode(data)
		if err != nil {
			return
		}
		use(v)
		stable(t, encode(v), func(b []byte) ([]byte, error) {
			again, err := decode(b)
			if err != nil {
				return nil, err
			}
			return encode(again), nil
		})
	})
}

func FuzzDecodeMessage(f *testing.F) {
	seed(f, "invoker0")
	fuzzCodec(f, DecodeMessage, (*Message).Encode, func(m *Message) {
		_ = m.User.AuthKey.Members()
		_ = m.TransID.ID()
	})
}

func FuzzDecodeAck(f *testing.F) {
	seed(f, "completed0")
	fuzzCodec(f, DecodeAck, Ack.Encode, func(a Ack) {
		if a.Record != nil {
			a.Record.Details.Kind = "unknown"
			NewEvent(a.Record, "invoker0", "u", 1)
		}
	})
}

func FuzzDecodePing(f *testing.F) {
	seed(f, "health")
	fuzzCodec(f, DecodePing, Ping.Encode, func(Ping) {})
}

func FuzzDecodeRecord(f *testing.F) {
	for _, s := range scenarios(f) {
		for _, doc := range s.Activations {
			if len(doc) < 4000 {
				f.Add([]byte(doc))
			}
		}
	}
	fuzzCodec(f, DecodeRecord, func(r *Record) []byte { return r.Document(1) }, func(*Record) {})
}

func FuzzDecodeAction(f *testing.F) {
	for _, s := range scenarios(f) {
		for _, doc := range s.Actions {
			if len(doc) < 4000 {
				f.Add([]byte(doc))
			}
		}
	}
	m := manifest(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := DecodeAction(data, m)
		if err != nil {
			return
		}
		check.That(check.Must(t), a.Exec.Kind != "", "nothing to run: %+v", a.Exec)
		check.That(check.Must(t), a.Exec.Image != "", "nothing to run: %+v", a.Exec)
		_, _ = a.Annotations.GPU()
		_ = a.Annotations.ProvidesAPIKey()
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(testManifest))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data, ManifestOptions{})
		if err != nil {
			return
		}
		for _, r := range m.Runtimes() {
			_, ok := m.Runtime(r.Kind)
			check.That(check.Must(t), ok, "kind %q is listed but not found", r.Kind)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, v := range []string{
		`{"b":1e3,"a":[1.0,-0,1E-7,0.1e-2,1e400],"a":null}`, `"\ud800\u0041\n"`, `{"é":1,"😀":2,"":3}`,
		"[" + strings.Repeat("[", 998) + strings.Repeat("]", 998) + "]",
	} {
		f.Add([]byte(v))
	}
	seed(f, "completed0")
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Canonical(data)
		if err != nil {
			return
		}
		if utf8.Valid(data) && !json.Valid(data) {
			t.Fatalf("accepted invalid JSON: %q", data)
		}
		stable(t, out, func(b []byte) ([]byte, error) {
			again, err := Canonical(b)
			return again, err
		})
		quoted := quoteHuge(out)
		check.That(check.Must(t), json.Valid(quoted), "quoted to no json: %q", quoted)
	})
}

func FuzzParseUserLimits(f *testing.F) {
	f.Add([]byte(`{"maxActionMemory":512,"maxPayloadSize":"1 MB","storeActivations":false}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseUserLimits(data)
		if err != nil {
			return
		}
		l.raw = nil
		_, err = ParseUserLimits(l.append(nil))
		check.NoError(t, err)
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"256 MB", " 1g ", "5B", "9223372036854775807 GB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		for _, text := range []string{n.String(), n.Bytes()} {
			again, err := ParseSize(text)
			check.NoError(t, err, "%q: %v", text, again)
			check.Equal(check.Must(t), again, n, "%q", text)
		}
	})
}

func FuzzParseImage(f *testing.F) {
	f.Add("127.0.0.1:1/none/does-not-exist:9")
	f.Add("name@sha256:0123456789abcdef0123456789abcdef")
	f.Fuzz(func(t *testing.T, s string) {
		i, err := ParseImage(s)
		if err != nil {
			return
		}
		check.Equal(check.Must(t), i.String(), s)
	})
}

func FuzzGPUAnnotation(f *testing.F) {
	f.Add([]byte(`{"memory":"4 GB","weight":2,"shim":"count","concurrency":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := (Annotations{{GPUAnnotation, data}}).GPU()
		if err == nil && g != nil {
			check.Greater(check.Must(t), g.Weight, 0)
			check.That(check.Must(t), g.Shim != "", "%+v", g)
			check.AtLeast(check.Must(t), g.Memory, 0)
		}
		run, ok := (Annotations{{GPUAnnotation, data}}).GPURun()
		check.That(check.Must(t), ok == (run.Start != ""), "%+v, %t", run, ok)
	})
}

func FuzzUnlock(f *testing.F) {
	for _, c := range capturedRecords(f) {
		if c.scenario == "locked-args" && c.Topic == "invoker0" {
			m, err := DecodeMessage([]byte(c.Value))
			check.NoError(f, err)
			f.Add([]byte(m.Content))
		}
	}
	locked := []LockedArg{{"secret", "aes-256"}, {"obj", "aes-128"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := Unlock(data, locked, Keys{AES128: make([]byte, 16), AES256: testKey()})
		if err == nil && json.Valid(data) && !json.Valid(content) {
			t.Fatalf("unlocked to no json: %q", content)
		}
	})
}
