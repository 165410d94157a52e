package activation

import (
	"fmt"
	"strconv"
	"strings"
)

// Instance is an invoker's identity in messages to controllers.
type Instance struct {
	ID                  int
	UniqueName          string // empty: none
	DisplayedName       string // empty: none
	UserMemory          Size
	BusyMemory          *Size
	Tags                []string
	DedicatedNamespaces []string
}

// String is the name that logs and the controller's lists show, such as
// "invoker0/0".
func (i Instance) String() string {
	s := i.Topic()
	if i.UniqueName != "" {
		s += "/" + i.UniqueName
	}
	if i.DisplayedName != "" {
		s += "/" + i.DisplayedName
	}
	return s
}

// Topic is the name of the invoker's Kafka topic, without a prefix, and its
// name as the source of user events.
func (i Instance) Topic() string { return "invoker" + strconv.Itoa(i.ID) }

// ContainerPrefix is the head of the names of its containers, as OpenWhisk's Docker
// factory makes it: letters, digits and a few signs only.
func (i Instance) ContainerPrefix() string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return -1
	}, i.UniqueName)
	return "wsk" + name + strconv.Itoa(i.ID) + "_"
}

// Encode writes the instance as JSON.
func (i Instance) Encode() []byte { return i.append(nil) }

func (i Instance) append(dst []byte) []byte {
	o := newObject(dst)
	if i.BusyMemory != nil {
		o.str("busyMemory", i.BusyMemory.Bytes())
	}
	o.strs("dedicatedNamespaces", i.DedicatedNamespaces)
	o.optional("displayedName", i.DisplayedName)
	o.int("instance", int64(i.ID))
	o.str("instanceType", "invoker")
	o.strs("tags", i.Tags)
	o.optional("uniqueName", i.UniqueName)
	o.str("userMemory", i.UserMemory.Bytes())
	return o.end()
}

func (p *parser) instance() Instance {
	var in Instance
	p.fields(
		required("instance", func() { in.ID = int(p.integer()) }),
		required("userMemory", func() { in.UserMemory = p.size() }),
		required("instanceType", func() {
			if p.str() != "invoker" {
				p.failf("want the type invoker")
			}
		}),
		required("tags", func() { in.Tags = p.strings() }),
		required("dedicatedNamespaces", func() { in.DedicatedNamespaces = p.strings() }),
		optional("uniqueName", func() { in.UniqueName = p.str() }),
		optional("displayedName", func() { in.DisplayedName = p.str() }),
		optional("busyMemory", func() { in.BusyMemory = new(p.size()) }),
	)
	return in
}

// Ping is the sign of life that an invoker gives every second.
type Ping struct {
	Instance Instance
	Enabled  bool
}

// Encode writes the ping.
func (g Ping) Encode() []byte {
	o := newObject(nil)
	o.bool("isEnabled", g.Enabled)
	o.key("name")
	o.out = g.Instance.append(o.out)
	return o.end()
}

// DecodePing reads a ping. Without the flag an invoker counts as enabled.
func DecodePing(data []byte) (Ping, error) {
	g := Ping{Enabled: true}
	p := newParser(data)
	p.fields(
		required("name", func() { g.Instance = p.instance() }),
		optional("isEnabled", func() { g.Enabled = p.bool() }),
	)
	if err := p.end(); err != nil {
		return Ping{}, fmt.Errorf("decode ping: %w", err)
	}
	return g, nil
}
