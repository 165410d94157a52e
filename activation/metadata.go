package activation

import (
	"errors"
	"fmt"
)

// ErrNotExecutable is an action that no container runs, such as a sequence.
var ErrNotExecutable = errors.New("action is not executable")

// Decode reads the action. It has everything but its code, the document's id and
// revision: Exec.HasCode says whether its kind keeps code apart from the image,
// and is false for any action with an image of its own. The error is an
// ErrIncompatible or an ErrNotExecutable.
func (m ActionMetaData) Decode(runtimes *Manifest) (*Action, error) {
	a := &Action{}
	var e execFields
	p := newParser(m.JSON())
	p.fields(
		required("namespace", func() { a.Namespace = p.path() }),
		required("name", func() { a.Name = p.name() }),
		required("exec", func() { e = p.exec() }),
		required("parameters", func() { a.Parameters = p.parameters() }),
		required("limits", func() { a.Limits = p.limits() }),
		required("version", func() { a.Version = p.version() }),
		required("publish", func() { a.Publish = p.bool() }),
		required("annotations", func() { a.Annotations = p.annotations() }),
		required("updated", func() { a.Updated = p.instant() }),
	)
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	var err error
	a.Exec, err = runtimes.resolveMetaData(e)
	return a, err
}

// resolveMetaData is resolve for an exec without code.
func (m *Manifest) resolveMetaData(f execFields) (Exec, error) {
	f.code, f.jar = codeField{}, codeField{}
	switch f.kind {
	case sequenceKind:
		return Exec{}, fmt.Errorf("%w: a sequence", ErrNotExecutable)
	case Blackbox:
		e, err := m.blackbox(f)
		e.Binary = f.binary
		return e, err
	}
	r, ok := m.Runtime(f.kind)
	if !ok {
		return Exec{}, fmt.Errorf("%w: kind %q is not in the runtimes manifest", ErrIncompatible, f.kind)
	}
	if r.RequireMain && f.main == "" {
		return Exec{}, fmt.Errorf("%w: kind %q needs main", ErrIncompatible, r.Kind)
	}
	return Exec{
		Kind: r.Kind, Main: f.main, Image: m.ManagedReference(r.Image), Binary: f.binary,
		Sentinels: r.SentinelledLogs, HasCode: true,
	}, nil
}
