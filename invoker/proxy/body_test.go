package proxy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

const deadline = 1795250375150

func message(content string, initArgs ...string) *activation.Message {
	return &activation.Message{
		TransID:      activation.NewTransID("tid", 1, false),
		Action:       activation.ActionRef{Path: "guest/pkg", Name: "defaults", Version: "0.0.1"},
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "caller"}, AuthKey: activation.NewAuthKey("key")},
		ActivationID: "394de87db4e448808de87db4e4b8809b",
		Content:      json.RawMessage(content),
		InitArgs:     initArgs,
	}
}

func invocation(t *testing.T, m *activation.Message, apiKey bool) Invocation {
	t.Helper()
	v, err := NewInvocation(m, m.Content, apiKey)
	check.NoError(t, err)
	return v
}

func initEnv(t *testing.T, v Invocation) map[string]string {
	t.Helper()
	var body struct {
		Value struct{ Env map[string]string }
	}
	text := v.InitBody(&activation.Action{Name: "defaults"}, time.UnixMilli(deadline))
	err := json.Unmarshal(text, &body)
	check.NoError(t, err, "in %s", text)
	return body.Value.Env
}

func TestInitArgumentsGoToInitOnly(t *testing.T) {
	m := message(`{"a":1,"INI":"from-init","arr":[1,{"b":2}],"INI_OBJ":{"x":[1,2]}}`, "INI", "INI_OBJ", "absent")
	v := invocation(t, m, true)
	want := map[string]string{
		"INI": "from-init", "INI_OBJ": `{"x":[1,2]}`,
		"__OW_ACTION_NAME": "/guest/pkg/defaults", "__OW_ACTION_VERSION": "0.0.1",
		"__OW_ACTIVATION_ID": "394de87db4e448808de87db4e4b8809b", "__OW_API_KEY": "key",
		"__OW_DEADLINE": "1795250375150", "__OW_NAMESPACE": "caller", "__OW_TRANSACTION_ID": "tid",
	}
	check.DeepEqual(t, initEnv(t, v), want)
	check.Equal(t, string(v.Value), `{"a":1,"arr":[1,{"b":2}]}`)
}

// TestEnvironmentOfTheDevice: /init carries the variables of the GPU and the shim,
// because an action loop passes on no others. Init arguments do not replace these
// variables. Without a device all init arguments pass, as in OpenWhisk.
func TestEnvironmentOfTheDevice(t *testing.T) {
	content, names := `{"rest":1`, []string{}
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
		"NVIDIA_VISIBLE_DEVICES", "GPUWHISK_SHIM", "FAKE_CUDA_MEMORY"} {
		content += `,"` + name + `":"x"`
		names = append(names, name)
	}
	kept := []string{"MY_LD_PRELOAD", "cuda_visible_devices", "CUDAX", "PATH", "NVIDIA", "FAKE_CUDA_MEM", ""}
	for _, name := range kept {
		content += `,"` + name + `":"x"`
	}
	all := append(append([]string{}, names...), kept...)
	for _, gpu := range []*container.GPU{nil, {}, {Env: []string{"LD_PRELOAD=/shim.so", "GPUWHISK_SHIM=a=b", "FAKE_CUDA_MEMORY=5"}}} {
		v := invocation(t, message(content+"}", all...), false)
		v.GPU = gpu
		env := initEnv(t, v)
		for _, name := range names {
			got, there := env[name]
			switch want := map[string]string{"LD_PRELOAD": "/shim.so", "GPUWHISK_SHIM": "a=b", "FAKE_CUDA_MEMORY": "5"}[name]; {
			case gpu != nil && len(gpu.Env) > 0 && want != "":
				check.Equal(t, got, want, "on %+v: %s", gpu, name)
			default:
				passes := gpu == nil || !container.IsReservedEnv(name)
				check.Equal(t, there, passes, "on %+v: %s is there", gpu, name)
			}
		}
		for _, name := range kept {
			check.Equal(t, env[name], "x", "on %+v: %q", gpu, name)
		}
		check.Equal(t, string(v.Value), `{"rest":1}`, "an init argument went to /run")
		text := string(v.InitBody(&activation.Action{}, time.UnixMilli(deadline)))
		check.Equal(t, strings.Count(text, `"LD_PRELOAD"`), min(1, len(env["LD_PRELOAD"])), "times that it is set in %s", text)
	}
}

func TestEnvironmentTexts(t *testing.T) {
	for value, want := range map[string]string{
		`"as it is \"ü\" \u0041"`: `as it is "ü" A`,
		`null`:                    ``,
		`true`:                    `true`,
		`false`:                   `false`,
		`1.0`:                     `1.0`,
		`1e3`:                     `1E+3`,
		`[1, "two", null]`:        `[1,"two",null]`,
		`{"b": 1, "a": {}}`:       `{"a":{},"b":1}`,
		`""`:                      ``,
	} {
		v := invocation(t, message(`{"X":`+value+`}`, "X"), false)
		check.Equal(t, initEnv(t, v)["X"], want, "%s becomes", value)
	}
}

func TestRuntimeVariablesCannotBeReplaced(t *testing.T) {
	m := message(`{"__OW_NAMESPACE":"forged","__OW_MINE":"kept"}`, "__OW_NAMESPACE", "__OW_MINE")
	env := initEnv(t, invocation(t, m, false))
	check.Equal(t, env["__OW_NAMESPACE"], "caller")
	check.Equal(t, env["__OW_MINE"], "kept")
	_, found := env["__OW_API_KEY"]
	check.That(t, !found, "the key is sent though the action may not have it")
}

func TestRunBody(t *testing.T) {
	head := `{"action_name":"/guest/pkg/defaults","action_version":"0.0.1",` +
		`"activation_id":"394de87db4e448808de87db4e4b8809b",`
	tail := `"deadline":"1795250375150","namespace":"caller","transaction_id":"tid","value":`
	for _, c := range []struct {
		name, content string
		key           bool
		want          string
	}{
		{"object", `{"a":1e3}`, false, head + tail + `{"a":1e3}}`},
		{"key", `{}`, true, head + `"api_key":"key",` + tail + `{}}`},
		{"none", ``, false, head + tail + `{}}`},
		{"array", `[1,"x"]`, false, head + tail + `[1,"x"]}`},
	} {
		v := invocation(t, message(c.content, "INI"), c.key)
		check.Equal(t, string(v.RunBody(time.UnixMilli(deadline))), c.want, "%s", c.name)
	}
}

func TestRunBodyWithoutVersion(t *testing.T) {
	m := message(`{}`)
	m.Action.Version = ""
	v := invocation(t, m, false)
	var got map[string]any
	check.NoError(t, json.Unmarshal(v.RunBody(time.UnixMilli(deadline)), &got))
	version, found := got["action_version"]
	check.That(check.Must(t), found, "action_version %v, want null", version)
	check.That(t, version == nil, "action_version %v, want null", version)
	check.Equal(t, initEnv(t, v)["__OW_ACTION_VERSION"], "")
}

func TestCodeIsLeftOutWhereThereIsNone(t *testing.T) {
	v := invocation(t, message(`{}`), false)
	a := &activation.Action{Name: "n"}
	a.Exec.Main = "go"
	got := tree(t, v.InitBody(a, time.UnixMilli(deadline))).(map[string]any)["value"].(map[string]any)
	_, found := got["code"]
	check.That(t, !found, "value %v", got)
	check.Equal(t, got["main"], "go")
	check.That(t, got["binary"] == false, "value %v", got)
	check.Equal(t, got["name"], "n")
}
