package activation

import "testing"

func TestTransID(t *testing.T) {
	for _, c := range []struct {
		text, id string
		start    int64
		extra    bool
	}{
		{`["abc",1718000000123]`, "abc", 1718000000123, false},
		{`["abc",1718000000123,true]`, "abc", 1718000000123, true},
		{`["abc",1718000000123,false]`, "abc", 1718000000123, false},
		{`["abc",5,["p",4,["q",3]]]`, "abc", 5, false},
		{`["abc",5,true,["p",4,true]]`, "abc", 5, true},
		{`[ "a" , 1.5e3 ]`, "a", 1500, false},
		{`["abc"]`, UnknownTransID, 0, false},
		{`["abc","5"]`, UnknownTransID, 0, false},
		{`[5,"abc"]`, UnknownTransID, 0, false},
		{`["abc",5,7]`, UnknownTransID, 0, false},
		{`["abc",5,true,true]`, UnknownTransID, 0, false},
		{`["abc",5,[],[]]`, UnknownTransID, 0, false},
		{`["abc",1e400]`, UnknownTransID, 0, false},
		{`"abc"`, UnknownTransID, 0, false},
		{`null`, UnknownTransID, 0, false},
		{`{}`, UnknownTransID, 0, false},
	} {
		p := newParser([]byte(c.text))
		got := p.transID()
		if err := p.end(); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got.ID() != c.id || got.StartMillis() != c.start || got.ExtraLogging() != c.extra {
			t.Errorf("%s: %q %d %v", c.text, got.ID(), got.StartMillis(), got.ExtraLogging())
		}
		if string(got.JSON()) != c.text {
			t.Errorf("%s is echoed as %s", c.text, got.JSON())
		}
	}
}

func TestMadeTransID(t *testing.T) {
	parent := NewTransID("p\"q", 4, true)
	if got := string(parent.JSON()); got != `["p\"q",4,true]` {
		t.Errorf("parent %s", got)
	}
	child := parent.Child("c", 5)
	if got := string(child.JSON()); got != `["c",5,true,["p\"q",4,true]]` {
		t.Errorf("child %s", got)
	}
	if got := string(NewTransID("a", 1, false).Child("b", 2).JSON()); got != `["b",2,["a",1]]` {
		t.Errorf("child %s", got)
	}
	if got := (TransID{}).ID(); got != UnknownTransID {
		t.Errorf("zero value %q", got)
	}
	if got := string((TransID{}).JSON()); got != `["sid_unknown",0]` {
		t.Errorf("zero value %s", got)
	}
}
