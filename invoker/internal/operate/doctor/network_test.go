package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

func TestNetwork(t *testing.T) {
	open := docker.Network{Name: "bridge", Open: "it lacks an option"}
	apart := docker.Network{Name: docker.OwnNetwork}
	for name, tt := range map[string]struct {
		setting string
		is      docker.Isolation
		err     error
		status  Status
		found   string
		fix     string
	}{
		"not tried":           {"bridge", docker.Isolation{Network: apart, Found: true}, nil, OK, "by its options", ""},
		"not made yet":        {"bridge", docker.Isolation{}, nil, OK, "creates when it starts", ""},
		"may not try":         {"bridge", docker.Isolation{Network: apart, Found: true, From: "a", To: "b", TryErr: errors.New("permission denied")}, nil, OK, "by its options", ""},
		"tried":               {"bridge", docker.Isolation{Network: apart, Found: true, From: "a", To: "b"}, nil, OK, "b was not reached from a", ""},
		"reached":             {"bridge", docker.Isolation{Network: apart, Found: true, From: "a", To: "b", Reached: true}, nil, Fail, "b was reached from a", `"iptables"`},
		"reached, no filter":  {"bridge", docker.Isolation{Network: apart, Found: true, From: "a", To: "b", Reached: true, Unfiltered: "modprobe it"}, nil, Fail, "b was reached", "modprobe it"},
		"no filter":           {"bridge", docker.Isolation{Network: apart, Found: true, Unfiltered: "modprobe it"}, nil, Warn, "modprobe it", "--probe"},
		"no filter but apart": {"bridge", docker.Isolation{Network: apart, Found: true, From: "a", To: "b", Unfiltered: "modprobe it"}, nil, OK, "was not reached", ""},
		"metadata":            {"bridge", docker.Isolation{Network: apart, Found: true, From: "a", To: "b", Metadata: true}, nil, Warn, "metadata service", "iptables -I DOCKER-USER"},
		"own network, open":   {"bridge", docker.Isolation{Network: open, Found: true}, nil, Fail, "it lacks an option", "docker network rm gpuwhisk"},
		"away":                {"bridge", docker.Isolation{Network: apart, Found: true, Away: errors.New("no such address")}, nil, Warn, "cannot reach", "--network host"},
		"shared":              {"default", docker.Isolation{Network: open, Found: true}, nil, Warn, "it lacks an option", "unset " + networkSetting},
		"one's own, apart":    {"lan", docker.Isolation{Network: docker.Network{Name: "lan"}, Found: true}, nil, OK, "lan isolates", ""},
		"one's own, reached":  {"lan", docker.Isolation{Network: docker.Network{Name: "lan"}, Found: true, From: "a", To: "b", Reached: true}, nil, Warn, "b was reached", "unset"},
		"one's own, missing":  {"lan", docker.Isolation{}, nil, Fail, "does not exist", "docker network create lan"},
		"no answer":           {"lan", docker.Isolation{}, errors.New("no answer"), Fail, "no answer", "docker network inspect lan"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.Config.Containers.Network = tt.setting
			f.Network = func(context.Context) (docker.Isolation, error) { return tt.is, tt.err }
			all := Examine(t.Context(), f.Machine, time.Minute).of("Containers", "network")
			got := all[len(all)-1]
			check.Equal(t, got.Status, tt.status)
			check.Contains(t, got.Found, tt.found)
			check.Contains(t, got.Fix, tt.fix)
		})
	}
}
