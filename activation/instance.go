package activation

import (
	"fmt"
	"strconv"
)

// Instance is an invoker's identity as controllers know it.
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

const (
	hasInstance = 1 << iota
	hasUserMemory
	hasInstanceType
	hasTags
	hasDedicated
	wholeInstance = 1<<iota - 1
)

func (p *parser) instance() Instance {
	var in Instance
	seen := 0
	p.object(func(key string) { seen |= in.member(p, key) })
	p.require(seen == wholeInstance, "instance, userMemory, instanceType, tags and dedicatedNamespaces")
	return in
}

func (i *Instance) member(p *parser, key string) int {
	switch key {
	case "instance":
		i.ID = int(p.integer())
		return hasInstance
	case "userMemory":
		i.UserMemory = p.size()
		return hasUserMemory
	case "instanceType":
		if p.str() != "invoker" {
			p.failf("want the type invoker")
		}
		return hasInstanceType
	case "tags":
		i.Tags = p.strings()
		return hasTags
	case "dedicatedNamespaces":
		i.DedicatedNamespaces = p.strings()
		return hasDedicated
	}
	switch {
	case p.null():
	case key == "uniqueName":
		i.UniqueName = p.str()
	case key == "displayedName":
		i.DisplayedName = p.str()
	case key == "busyMemory":
		v := p.size()
		i.BusyMemory = &v
	default:
		p.skip()
	}
	return 0
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
	named := false
	p := newParser(data)
	p.object(func(key string) {
		switch {
		case key == "name":
			g.Instance, named = p.instance(), true
		case key == "isEnabled" && !p.null():
			g.Enabled = p.bool()
		case key != "isEnabled":
			p.skip()
		}
	})
	p.require(named, "name")
	if err := p.end(); err != nil {
		return Ping{}, fmt.Errorf("decode ping: %w", err)
	}
	return g, nil
}
