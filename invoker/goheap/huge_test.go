package goheap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

const someMaps = `00400000-008a1000 r-xp 00000000 fe:00 656 /usr/bin/gpuwhisk
00c2f000-00c60000 rw-p 00000000 00:00 0 
c000000000-c000800000 rw-p 00000000 00:00 0 
c000800000-c001000000 rw-p 00000000 00:00 0                              [anon: Go: heap]
c001000000-c004000000 ---p 00000000 00:00 0 
1cc000000000-1cc000400000 rw-p 00000000 00:00 0 
7f3c00000000-7f3c00021000 rw-p 00000000 00:00 0 
7f3c4c000000-7f3c4c040000 rw-s 00000000 fe:00 99 /var/lib/journal/1
7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]
gibberish

`

func TestHeapIn(t *testing.T) {
	want := []region{{0xc000000000, 0xc000800000}, {0xc000800000, 0xc001000000}}
	if got := heapIn([]byte(someMaps), 0xc000012345); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := heapIn(nil, 0xc000012345); got != nil {
		t.Errorf("nowhere: %x", got)
	}
}

// Asked for again only when there is more of it, and when work begins anew.
func TestGrowthIsAdvised(t *testing.T) {
	var got []string
	p := &pages{
		advise: func(_ region, how int) error {
			got = append(got, fmt.Sprint(how))
			return syscall.EINVAL // an old system
		},
	}
	regions := strings.ReplaceAll(someMaps, "c000", fmt.Sprintf("%x", uintptr(unsafe.Pointer(p))>>24))
	p.maps = func() ([]byte, error) { return []byte(regions), nil }
	for _, mapped := range []uint64{5, 5, 6, 6} {
		p.suit(false, mapped)
	}
	p.suit(true, 6)
	p.suit(true, 7)
	p.suit(false, 7)
	part := "14 25 14 25"
	if want := strings.Join([]string{part, part, "15 15", part}, " "); strings.Join(got, " ") != want {
		t.Errorf("advised %v, want %s", got, want)
	}
	p.maps = func() ([]byte, error) { return nil, errors.New("no /proc") }
	p.suit(false, 8)
}

// TestOwnHeap: the system knows of this process's heap what it was told.
func TestOwnHeap(t *testing.T) {
	p := &pages{maps: ownMaps, advise: madvise}
	var failed error
	p.advise = func(of region, how int) error {
		err := madvise(of, how)
		if how != collapse { // which may find no memory
			failed = errors.Join(failed, err)
		}
		return err
	}
	for _, c := range []struct {
		rests bool
		flag  string
	}{{false, "hg"}, {true, "nh"}} {
		p.suit(c.rests, 1)
		if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
			if !errors.Is(failed, syscall.EINVAL) {
				t.Errorf("a system without huge pages says %v", failed)
			}
			continue
		}
		if flags := flagsOf(t, uintptr(unsafe.Pointer(p))); failed != nil || !strings.Contains(flags+" ", " "+c.flag+" ") {
			t.Errorf("at rest %v: flags of the heap are %q, want %s (%v)", c.rests, flags, c.flag, failed)
		}
	}
}

// flagsOf are the flags of the memory in which an address lies.
func flagsOf(t *testing.T, address uintptr) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for line := range bytes.Lines(text) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(string(line), "%x-%x ", &from, &to); n == 2 {
			within = from <= address && address < to
		}
		if flags, ok := strings.CutPrefix(string(line), "VmFlags:"); ok && within {
			return strings.TrimSpace(flags)
		}
	}
	t.Fatalf("no memory at %x", address)
	return ""
}
