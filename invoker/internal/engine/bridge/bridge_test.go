package bridge

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestFreeSubnet: the first subnet that this host does not use is taken, and if there is
// none the error names the setting.
func TestFreeSubnet(t *testing.T) {
	subnet, err := freeSubnet("gwnone", []string{"203.0.113.64/26", "192.0.2.0/24"})
	check.NoError(t, err)
	check.Equal(t, subnet.String(), "203.0.113.64/26")
	_, err = freeSubnet("gwnone", nil)
	check.ErrorContains(t, err, "whisk.gpu.containerd.subnet")
	_, err = freeSubnet("gwnone", []string{"nothing"})
	check.ErrorContains(t, err, "nothing")
}
