package assembly

import "github.com/gpuwhisk/gpuwhisk/invoker/devices"

// openFallbacks reads which actions' GPU memory is only counted.
func (a *assembly) openFallbacks() {
	if a.gpus.shim != nil {
		a.gpus.fallbacks = devices.OpenFallbacks(a.c.State.FallbackFile(a.instance.Topic()), a.Log)
	}
}

// fallbackDoor lets the admin door show and clear them. The door is open before
// the devices are.
type fallbackDoor struct{ a *assembly }

func (f fallbackDoor) all() []devices.Fallback {
	if !f.a.ready.Load() || f.a.gpus.fallbacks == nil {
		return nil
	}
	return f.a.gpus.fallbacks.List()
}

// List is what /fallbacks shows.
func (f fallbackDoor) List() any { return append([]devices.Fallback{}, f.all()...) }

// Clear forgets an action, or all for an empty name.
func (f fallbackDoor) Clear(action string) int {
	if len(f.all()) == 0 {
		return 0
	}
	n := f.a.gpus.fallbacks.Clear(action)
	if n > 0 {
		f.a.Log.Info("actions may have their GPU memory moved again", "actions", n, "action", action)
	}
	return n
}
