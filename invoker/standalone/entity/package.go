package entity

import (
	"encoding/json"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Package is a package, or a binding: another name and other parameters for a
// package.
type Package struct {
	Head
	Parameters Parameters
	Binding    *Ref // nil for a package; else the package it stands for
}

// DecodePackage reads a package's document.
func DecodePackage(doc []byte) (*Package, error) {
	var d struct {
		headJSON
		Parameters Parameters   `json:"parameters"`
		Binding    *bindingJSON `json:"binding"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, fmt.Errorf("decode package: %w", err)
	}
	head, err := d.head("package")
	if err != nil {
		return nil, err
	}
	if d.Binding == nil {
		return nil, fmt.Errorf("%w: no binding in a package", ErrOtherKind)
	}
	return &Package{Head: head, Parameters: d.Parameters, Binding: d.Binding.ref("")}, nil
}

// bindingJSON is empty for a package.
type bindingJSON struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (b *bindingJSON) ref(home string) *Ref {
	if b == nil || b.Name == "" {
		return nil
	}
	ns := b.Namespace
	if ns == "" || ns == "_" {
		ns = home
	}
	return &Ref{ns, b.Name}
}

func bindingText(b *Ref) []byte {
	o := newObject(nil)
	if b != nil {
		o.str("name", b.Name)
		o.str("namespace", b.Path)
	}
	return o.end()
}

// Path is where the package's actions live: namespace/package.
func (p *Package) Path() string { return p.ID() }

// Encode writes the package. contents, nil for none, are what a GET adds: the
// actions and feeds in it.
func (p *Package) Encode(l Layout, contents *Contents) []byte {
	o := p.begin(l)
	if contents != nil {
		o.raw("actions", list(contents.Actions))
	}
	o.annotations(p.Annotations)
	o.raw("binding", bindingText(p.Binding))
	entityType(&o, l, "package")
	if contents != nil {
		o.raw("feeds", list(contents.Feeds))
	}
	o.str("name", p.Name)
	o.str("namespace", p.Namespace)
	p.Parameters.append(&o)
	o.bool("publish", p.Publish)
	o.int("updated", p.Updated)
	o.str("version", p.Version.String())
	return o.end()
}

// Contents are the actions of a package as its answer lists them.
type Contents struct {
	Actions, Feeds []json.RawMessage
}

// Add lists an action by its summary from the database's view. An action
// annotated as a feed is listed among the feeds.
func (c *Contents) Add(summary []byte) error {
	var a struct {
		Name        string         `json:"name"`
		Version     string         `json:"version"`
		Annotations annotationList `json:"annotations"`
	}
	if err := json.Unmarshal(summary, &a); err != nil {
		return fmt.Errorf("decode action summary: %w", err)
	}
	annotations := activation.Annotations(a.Annotations)
	o := newObject(nil)
	o.annotations(annotations)
	o.str("name", a.Name)
	o.str("version", a.Version)
	if Truthy(annotations, "feed") {
		c.Feeds = append(c.Feeds, o.end())
	} else {
		c.Actions = append(c.Actions, o.end())
	}
	return nil
}

func list(items []json.RawMessage) []byte {
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// PackagePut is the body of a PUT of a package.
type PackagePut struct {
	Binding     *bindingJSON    `json:"binding"`
	Parameters  *Parameters     `json:"parameters"`
	Version     *string         `json:"version"`
	Publish     *bool           `json:"publish"`
	Annotations *annotationList `json:"annotations"`
}

// DecodePackagePut reads the body.
func DecodePackagePut(body []byte) (*PackagePut, error) {
	var put PackagePut
	if err := decodeBody(body, &put); err != nil {
		return nil, err
	}
	if put.Parameters != nil && put.Parameters.size() > maxParameterBytes {
		return nil, &TooLarge{"parameters", put.Parameters.size(), maxParameterBytes}
	}
	return &put, nil
}

// Bound is the package that the PUT binds, nil when it binds none.
func (put *PackagePut) Bound(home string) *Ref { return put.Binding.ref(home) }

// Create makes the package that the PUT describes.
func (put *PackagePut) Create(ref Ref, now int64) (*Package, error) {
	p := &Package{
		Head:    Head{Namespace: ref.Path, Name: ref.Name, Version: activation.SemVer{Patch: 1}, Updated: now},
		Binding: put.Bound(ref.Namespace()),
	}
	return put.finish(p)
}

// Update merges the PUT into the package as it is.
func (put *PackagePut) Update(old *Package, now int64) (*Package, error) {
	p := *old
	p.Version = old.Version.Next()
	p.Updated = now
	if b := put.Bound(old.Namespace); b != nil {
		p.Binding = b
	}
	return put.finish(&p)
}

func (put *PackagePut) finish(p *Package) (*Package, error) {
	if put.Parameters != nil {
		p.Parameters = *put.Parameters
	}
	if put.Annotations != nil {
		p.Annotations = activation.Annotations(*put.Annotations)
	}
	// Lists show annotations and not bindings; the controller keeps the two in
	// step (Packages.scala, bindingAnnotation).
	p.Annotations = dropAnnotation(p.Annotations, "binding")
	if p.Binding != nil {
		p.Annotations = setAnnotation(p.Annotations, "binding", bindingText(p.Binding))
	}
	return p, p.setCommon(put.Version, put.Publish)
}
