package activation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Manifest lists the runtimes that an installation offers, and the images of
// its operators that user actions may use without a pull.
type Manifest struct {
	runtimes   []Runtime // in the order of the text
	blackboxes []Image
	options    ManifestOptions
}

// ManifestOptions are the settings that stand beside the manifest.
type ManifestOptions struct {
	RuntimesRegistry   string // for images of runtimes without a registry
	UserImagesRegistry string // for users' images without a registry
	BypassPull         bool   // users' images with LocalPrefix are local
	LocalPrefix        string
}

// Runtime is one kind of action and the image that runs it.
type Runtime struct {
	Family          string
	Kind            string
	Image           Image
	Default         bool // of its family
	Deprecated      bool
	Attached        bool // code may be an attachment
	RequireMain     bool
	SentinelledLogs bool // the runtime marks the end of an activation's logs
	StemCells       []StemCell
}

// StemCell asks for containers of a runtime that wait for an action.
type StemCell struct {
	Count    int
	Memory   Size
	Reactive *Reactive // nil: the count is fixed
}

// Reactive lets the number of stem cells follow the cold starts.
type Reactive struct {
	MinCount, MaxCount   int
	TTL                  time.Duration
	Threshold, Increment int
}

// ParseManifest reads RUNTIMES_MANIFEST.
func ParseManifest(data []byte, options ManifestOptions) (*Manifest, error) {
	m := &Manifest{options: options}
	p := newParser(data)
	p.fields(
		required("runtimes", func() { p.object(func(name string) { m.family(p, name) }) }),
		optional("blackboxes", func() { p.array(func() { m.blackboxes = append(m.blackboxes, p.image()) }) }),
	)
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("parse runtimes manifest: %w", err)
	}
	return m, nil
}

func (m *Manifest) family(p *parser, name string) {
	defer p.addKey(name) // it is of the operator's own file
	first := len(m.runtimes)
	p.array(func() {
		r := p.runtime()
		r.Family = name
		m.runtimes = append(m.runtimes, r)
	})
	if p.err != nil {
		return
	}
	defaults := 0
	family := m.runtimes[first:]
	for _, r := range family {
		if r.Default {
			defaults++
		}
	}
	if len(family) == 1 {
		family[0].Default = true
	} else if defaults != 1 && len(family) > 1 {
		p.failf("want exactly one default kind, have %d", defaults)
	}
}

func (p *parser) runtime() Runtime {
	r := Runtime{SentinelledLogs: true}
	p.fields(
		required("kind", func() { r.Kind = strings.ToLower(strings.TrimSpace(p.str())) }),
		required("image", func() { r.Image = p.image() }),
		optional("deprecated", func() { r.Deprecated = p.bool() }),
		optional("default", func() { r.Default = p.bool() }),
		optional("attached", func() {
			p.rawObject()
			r.Attached = true
		}),
		optional("requireMain", func() { r.RequireMain = p.bool() }),
		optional("sentinelledLogs", func() { r.SentinelledLogs = p.bool() }),
		optional("stemCells", func() { p.array(func() { r.StemCells = append(r.StemCells, p.stemCell()) }) }),
	)
	p.require(r.Kind != "", "kind")
	return r
}

func (p *parser) stemCell() StemCell {
	var c StemCell
	count := func() { c.Count = p.wholeInt() }
	p.fields(
		optional("initialCount", count),
		optional("count", count),
		allowed("memory", func() { c.Memory = p.size() }),
		optional("reactive", func() { c.Reactive = p.reactive() }),
	)
	if p.err == nil && (c.Count <= 0 || c.Memory <= 0) {
		p.failf("want initialCount and memory above zero")
	}
	return c
}

func (p *parser) reactive() *Reactive {
	var r Reactive
	p.fields(
		allowed("minCount", func() { r.MinCount = p.wholeInt() }),
		allowed("maxCount", func() { r.MaxCount = p.wholeInt() }),
		allowed("ttl", func() { r.TTL = p.duration() }),
		allowed("threshold", func() { r.Threshold = p.wholeInt() }),
		allowed("increment", func() { r.Increment = p.wholeInt() }),
	)
	ok := r.MinCount >= 0 && r.MaxCount > 0 && r.MinCount <= r.MaxCount && r.TTL > 0 &&
		r.Threshold > 0 && r.Increment > 0 && r.Increment <= r.MaxCount
	if p.err == nil && !ok {
		p.failf("want 0 <= minCount <= maxCount, and ttl, threshold and increment (at most maxCount) above zero")
	}
	return &r
}

func (p *parser) duration() time.Duration { return parsed(p, parseDuration) }

// parseDuration reads a duration as Scala writes one: "2 minutes", "10s".
func parseDuration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 32)
	unit, ok := durationUnit(strings.TrimSpace(s[digits:]))
	if err != nil || !ok {
		return 0, fmt.Errorf("duration %q: want a number and a unit such as minutes", s)
	}
	d := time.Duration(n) * unit
	if n != 0 && d/unit != time.Duration(n) {
		return 0, fmt.Errorf("duration %q: too long", s)
	}
	return d, nil
}

func durationUnit(word string) (time.Duration, bool) {
	switch word {
	case "ns", "nano", "nanos", "nanosecond", "nanoseconds":
		return time.Nanosecond, true
	case "µs", "us", "micro", "micros", "microsecond", "microseconds":
		return time.Microsecond, true
	case "ms", "milli", "millis", "millisecond", "milliseconds":
		return time.Millisecond, true
	case "s", "sec", "secs", "second", "seconds":
		return time.Second, true
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute, true
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour, true
	case "d", "day", "days":
		return 24 * time.Hour, true
	}
	return 0, false
}

// Runtimes lists every runtime in the order of the text.
func (m *Manifest) Runtimes() []Runtime { return slices.Clone(m.runtimes) }

// Runtime finds the runtime of a kind; "<family>:default" means the family's
// default.
func (m *Manifest) Runtime(kind string) (Runtime, bool) {
	kind = strings.ToLower(strings.TrimSpace(kind))
	family, isDefault := strings.CutSuffix(kind, ":default")
	for _, r := range m.runtimes {
		if r.Kind == kind || isDefault && r.Default && r.Family == family {
			return r, true
		}
	}
	return Runtime{}, false
}

// native reports whether a user's image is used without a pull, because the operator
// listed it or because it has the prefix of local images.
func (m *Manifest) native(i Image) bool {
	if m.options.BypassPull && i.Prefix != "" && i.Prefix == m.options.LocalPrefix {
		return true
	}
	return slices.ContainsFunc(m.blackboxes, i.same)
}

// ManagedReference writes the image of a runtime as an engine takes it.
func (m *Manifest) ManagedReference(i Image) string {
	return i.reference(m.options.RuntimesRegistry)
}

// userReference writes a user's image as an engine takes it.
func (m *Manifest) userReference(i Image) string {
	return i.reference(m.options.UserImagesRegistry)
}
