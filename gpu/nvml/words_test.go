package nvml

import (
	"testing"
	"time"

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

func TestAverageWeighsByTime(t *testing.T) {
	var a average
	at := time.Unix(0, 0)
	check.Equal(t, a.add(at, 0.2, time.Second), 0.2, "first sample gives")
	check.Equal(t, a.add(at, 1, time.Second), 0.2, "a sample that stands for no time changed the average")
	check.AtLeast(t, a.add(at.Add(time.Hour), 1, time.Second), 0.999, "after an hour the old sample still counts")
	check.AtLeast(t, a.add(at, 0, time.Second), 0.999, "a clock that went back changed the average")
}
