package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/devices"
)

// shownFallbacks is how many actions a finding names.
const shownFallbacks = 5

// checkFallbacks lists the actions whose GPU memory the invokers of this host
// only count, because their libraries do not bear that it is moved.
func checkFallbacks(f *Facts) []Finding {
	dir := f.Config.State.Dir
	if dir == "" || dir == config.None || f.Files == nil {
		return nil
	}
	files, _ := fs.Glob(f.Files, path.Join(strings.TrimPrefix(dir, "/"), "*", path.Base(f.Config.State.FallbackFile("x"))))
	var all []Finding
	for _, name := range files {
		at := "/" + name
		data, err := fs.ReadFile(f.Files, name)
		var list []devices.Fallback
		if err == nil {
			list, err = devices.ReadFallbacks(data)
		}
		if err != nil {
			all = append(all, warn(at+": "+err.Error(), "let this user read it; an invoker that cannot read it begins anew"))
			continue
		}
		if len(list) > 0 {
			all = append(all, warn(tellFallbacks(list),
				"give the action libraries that bear managed memory, or say so in its annotation (gpu: {\"shim\": \"count\"}); gpuwhisk fallbacks --clear ACTION has it tried again"))
		}
	}
	return all
}

func tellFallbacks(list []devices.Fallback) string {
	var named []string
	for _, one := range list[:min(len(list), shownFallbacks)] {
		named = append(named, fmt.Sprintf("%s (%s)", one.Action, one.Reason))
	}
	text := fmt.Sprintf("memory of %d actions is counted and not moved: %s", len(list), strings.Join(named, "; "))
	if len(list) > shownFallbacks {
		text += "; and others (gpuwhisk fallbacks)"
	}
	return text
}
