package docker

import (
	"slices"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// TestSELinux: where the daemon uses SELinux, or an operator says so, what is
// mounted into GPU containers gets a label that they may read.
func TestSELinux(t *testing.T) {
	with, without := []string{"name=seccomp,profile=builtin", "name=selinux"}, []string{"name=seccomp,profile=builtin", "name=cgroupns"}
	labelled := []string{"/of/operator:/x", "/s/lib.so:/opt/lib.so:ro,rprivate,z", "/s/run:/run:ro,rprivate,z", "/s/shm:/dev/shm:rw,rprivate,z"}
	for _, c := range []struct {
		want    string
		daemon  []string
		binds   []string
		mounts  int
		confine bool
	}{
		{"", without, labelled[:1], 3, true},
		{SELinuxAuto, without, labelled[:1], 3, true},
		{SELinuxAuto, with, labelled, 0, true},
		{SELinuxOff, with, labelled[:1], 3, true},
		{SELinuxRelabel, without, labelled, 0, true},
		{SELinuxDisable, with, labelled[:1], 3, false},
	} {
		part := shared(t, func(*Options) {})
		part.host.Binds = []string{"/of/operator:/x"}
		var err error
		if part.selinux, err = (Survey{SecurityOptions: c.daemon}).selinux(c.want); err != nil {
			t.Fatal(err)
		}
		for range 2 { // what one request adds is not in the next one's
			got, err := part.request(container.Spec{GPU: &container.GPU{
				Simulated: true,
				Mounts:    []container.Mount{{Source: "/s/lib.so", Target: "/opt/lib.so"}, {Source: "/s/run", Target: "/run"}},
				Shared:    []container.Mount{{Source: "/s/shm", Target: "/dev/shm"}},
			}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			host := got.HostConfig
			if !slices.Equal(host.Binds, c.binds) || len(host.Mounts) != c.mounts {
				t.Errorf("%q with %v: binds %v, mounts %v", c.want, c.daemon, host.Binds, host.Mounts)
			}
			want := []string{"no-new-privileges"}
			if !c.confine {
				want = append(want, "label=disable")
			}
			if !slices.Equal(host.SecurityOpt, want) {
				t.Errorf("%q with %v: security options %v", c.want, c.daemon, host.SecurityOpt)
			}
		}
		if plain, err := part.request(container.Spec{}, nil); err != nil || len(plain.HostConfig.Binds) != 1 || len(plain.HostConfig.SecurityOpt) != 1 {
			t.Errorf("%q: a container without a GPU got %+v, %v", c.want, plain.HostConfig, err)
		}
	}
	if _, err := (Survey{}).selinux("maybe"); err == nil {
		t.Error("any word is taken")
	}
	part := shared(t, func(*Options) {})
	part.selinux = SELinuxRelabel
	if _, err := part.request(container.Spec{GPU: &container.GPU{Simulated: true, Mounts: []container.Mount{{Source: "/a:b", Target: "/t"}}}}, nil); err == nil {
		t.Error("a path with a colon is taken")
	}
}
