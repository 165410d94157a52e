package zookeeper

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestMappingOfATree(t *testing.T) {
	m := newMemory()
	all, err := readMapping(m)
	check.NoError(t, err)
	check.Equal(t, len(all), 0)
	run(t, m, "foo")
	run(t, m, "bar")
	before := m.show()
	all, err = readMapping(m)
	check.NoError(t, err)
	check.DeepEqual(t, all, map[string]int{"foo": 0, "bar": 1})
	check.Equal(t, m.show(), before)
	m.nodes[mappingPath+"/foo"].data = []byte{0xff}
	if _, err := readMapping(m); err == nil {
		t.Error("garbage is no error")
	}
}

func TestMappingOfARealServer(t *testing.T) {
	at := realZooKeeper(t)
	clean(t, at, raw(t, at)) // also removes this test's nodes at its end
	id := assigned(t, at, "mapped", nil)
	all, err := Mapping(t.Context(), at)
	check.NoError(t, err)
	got, ok := all["mapped"]
	check.That(t, ok, "%v", all)
	check.Equal(t, got, id)
}

func TestMappingWithoutServer(t *testing.T) {
	if _, err := Mapping(t.Context(), freeAddress(t)); !errors.Is(err, errAway) {
		t.Errorf("error %v", err)
	}
}

func TestMappingEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
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
