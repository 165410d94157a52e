package activation

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

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
		{`["abc"]`, unknownTransID, 0, false},
		{`["abc","5"]`, unknownTransID, 0, false},
		{`[5,"abc"]`, unknownTransID, 0, false},
		{`["abc",5,7]`, unknownTransID, 0, false},
		{`["abc",5,true,true]`, unknownTransID, 0, false},
		{`["abc",5,[],[]]`, unknownTransID, 0, false},
		{`["abc",1e400]`, unknownTransID, 0, false},
		{`"abc"`, unknownTransID, 0, false},
		{`null`, unknownTransID, 0, false},
		{`{}`, unknownTransID, 0, false},
	} {
		p := newParser([]byte(c.text))
		got := p.transID()
		if err := p.end(); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		check.Equal(t, got.ID(), c.id, "%s", c.text)
		check.Equal(t, got.StartMillis(), c.start, "%s", c.text)
		check.Equal(t, got.ExtraLogging(), c.extra, "%s", c.text)
		check.Equal(t, string(got.JSON()), c.text)
	}
}

func TestMadeTransID(t *testing.T) {
	parent := NewTransID("p\"q", 4, true)
	check.Equal(t, string(parent.JSON()), `["p\"q",4,true]`)
	child := parent.Child("c", 5)
	check.Equal(t, string(child.JSON()), `["c",5,true,["p\"q",4,true]]`)
	check.Equal(t, string(NewTransID("a", 1, false).Child("b", 2).JSON()), `["b",2,["a",1]]`)
	check.Equal(t, (TransID{}).ID(), unknownTransID, "zero value")
	check.Equal(t, string((TransID{}).JSON()), `["sid_unknown",0]`, "zero value")
}
