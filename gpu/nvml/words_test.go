package nvml

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Off.String(), "off"}, {On.String(), "on"}, {Unknown.String(), "unknown"},
		{ModeDefault.String(), "Default"}, {ModeExclusive.String(), "Exclusive_Process"},
		{ModeProhibited.String(), "Prohibited"}, {ModeUnknown.String(), "unknown"},
		{XID.String(), "xid"}, {ECC.String(), "ecc"}, {Lost.String(), "lost"}, {Found.String(), "found"}, {FaultKind(9).String(), "fault(9)"},
		{OfProcess.String(), "process"}, {Degraded.String(), "degraded"}, {Fatal.String(), "fatal"}, {Severity(9).String(), "severity(9)"},
	} {
		check.Equal(t, tt.got, tt.want)
	}
}
