package zookeeper

import (
	"context"
	"errors"
	"maps"
	"net"
	"testing"
	"time"
)

func TestMappingOfATree(t *testing.T) {
	m := newMemory()
	if all, err := readMapping(m); err != nil || len(all) != 0 {
		t.Errorf("without invokers: %v, %v", all, err)
	}
	run(t, m, "foo")
	run(t, m, "bar")
	before := m.show()
	all, err := readMapping(m)
	if err != nil || !maps.Equal(all, map[string]int{"foo": 0, "bar": 1}) {
		t.Errorf("mapping %v, %v", all, err)
	}
	if m.show() != before {
		t.Errorf("reading changed the tree to\n%s", m.show())
	}
	m.nodes[mappingPath+"/foo"].data = []byte{0xff}
	if _, err := readMapping(m); err == nil {
		t.Error("garbage is no error")
	}
}

func TestMappingOfARealServer(t *testing.T) {
	at := realZooKeeper(t)
	clean(t, at, raw(t, at)) // and what is written here is no other test's burden
	id := assigned(t, at, "mapped", nil)
	all, err := Mapping(t.Context(), at)
	if got, ok := all["mapped"]; err != nil || !ok || got != id {
		t.Errorf("mapping %v, error %v, want mapped: %d", all, err, id)
	}
}

func TestMappingWithoutServer(t *testing.T) {
	if _, err := Mapping(t.Context(), freeAddress(t)); !errors.Is(err, errAway) {
		t.Errorf("error %v", err)
	}
}

func TestMappingEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Mapping(ctx, silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if _, err := Mapping(ctx, ""); err == nil {
		t.Error("no hosts are no error")
	}
}
