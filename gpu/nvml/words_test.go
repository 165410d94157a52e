package nvml

import (
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Off.String(), "off"}, {On.String(), "on"}, {Unknown.String(), "unknown"},
		{ModeDefault.String(), "Default"}, {ModeExclusive.String(), "Exclusive_Process"},
		{ModeProhibited.String(), "Prohibited"}, {ModeUnknown.String(), "unknown"},
		{XID.String(), "xid"}, {ECC.String(), "ecc"}, {Lost.String(), "lost"}, {Found.String(), "found"}, {FaultKind(9).String(), "fault(9)"},
		{OfProcess.String(), "process"}, {Degraded.String(), "degraded"}, {Fatal.String(), "fatal"}, {Severity(9).String(), "severity(9)"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestAverageWeighsByTime(t *testing.T) {
	var a average
	at := time.Unix(0, 0)
	if v := a.add(at, 0.2, time.Second); v != 0.2 {
		t.Errorf("first sample gives %v", v)
	}
	if v := a.add(at, 1, time.Second); v != 0.2 {
		t.Errorf("a sample that stands for no time changed the average to %v", v)
	}
	if v := a.add(at.Add(time.Hour), 1, time.Second); v < 0.999 {
		t.Errorf("after an hour the old sample still counts: %v", v)
	}
	if v := a.add(at, 0, time.Second); v < 0.999 {
		t.Errorf("a clock that went back changed the average to %v", v)
	}
}
