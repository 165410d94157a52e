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
	p.fields(p.actionFields(a, &e)...)
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
