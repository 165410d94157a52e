package proxy

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
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
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func initEnv(t *testing.T, v Invocation) map[string]string {
	t.Helper()
	var body struct {
		Value struct{ Env map[string]string }
	}
	text := v.InitBody(&activation.Action{Name: "defaults"}, time.UnixMilli(deadline))
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
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
	if got := initEnv(t, v); !reflect.DeepEqual(got, want) {
		t.Errorf("env\n got %v\nwant %v", got, want)
	}
	if string(v.Value) != `{"a":1,"arr":[1,{"b":2}]}` {
		t.Errorf("value %s", v.Value)
	}
}

// An action on a device does not learn by its init arguments how the loader, the
// driver and the shim work. Without a device they pass, as in the original.
func TestInitArgumentsThatSteerTheDriver(t *testing.T) {
	content, names := `{"rest":1`, []string{}
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
		"NVIDIA_VISIBLE_DEVICES", "GPUWHISK_SHIM"} {
		content += `,"` + name + `":"x"`
		names = append(names, name)
	}
	kept := []string{"MY_LD_PRELOAD", "cuda_visible_devices", "CUDAX", "PATH", "NVIDIA"}
	for _, name := range kept {
		content += `,"` + name + `":"x"`
	}
	all := append(append([]string{}, names...), kept...)
	for _, onDevice := range []bool{false, true} {
		v := invocation(t, message(content+"}", all...), false)
		v.GPU = onDevice
		env := initEnv(t, v)
		for _, name := range names {
			if _, there := env[name]; there == onDevice {
				t.Errorf("on a device %v: %s is there: %v", onDevice, name, there)
			}
		}
		for _, name := range kept {
			if env[name] != "x" {
				t.Errorf("on a device %v: %s is %q", onDevice, name, env[name])
			}
		}
		if string(v.Value) != `{"rest":1}` {
			t.Errorf("an init argument went to /run: %s", v.Value)
		}
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
		if got := initEnv(t, v)["X"]; got != want {
			t.Errorf("%s becomes %q, want %q", value, got, want)
		}
	}
}

func TestRuntimeVariablesCannotBeReplaced(t *testing.T) {
	m := message(`{"__OW_NAMESPACE":"forged","__OW_MINE":"kept"}`, "__OW_NAMESPACE", "__OW_MINE")
	env := initEnv(t, invocation(t, m, false))
	if env["__OW_NAMESPACE"] != "caller" || env["__OW_MINE"] != "kept" {
		t.Errorf("env %v", env)
	}
	if _, found := env["__OW_API_KEY"]; found {
		t.Error("the key is sent though the action may not have it")
	}
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
		if got := string(v.RunBody(time.UnixMilli(deadline))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestRunBodyWithoutVersion(t *testing.T) {
	m := message(`{}`)
	m.Action.Version = ""
	v := invocation(t, m, false)
	var got map[string]any
	if err := json.Unmarshal(v.RunBody(time.UnixMilli(deadline)), &got); err != nil {
		t.Fatal(err)
	}
	if version, found := got["action_version"]; !found || version != nil {
		t.Errorf("action_version %v, want null", version)
	}
	if env := initEnv(t, v); env["__OW_ACTION_VERSION"] != "" {
		t.Errorf("env %v", env)
	}
}

func TestCodeIsLeftOutWhereThereIsNone(t *testing.T) {
	v := invocation(t, message(`{}`), false)
	a := &activation.Action{Name: "n"}
	a.Exec.Main = "go"
	got := tree(t, v.InitBody(a, time.UnixMilli(deadline))).(map[string]any)["value"].(map[string]any)
	if _, found := got["code"]; found || got["main"] != "go" || got["binary"] != false || got["name"] != "n" {
		t.Errorf("value %v", got)
	}
}
