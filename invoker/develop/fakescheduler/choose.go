package fakescheduler

import (
	"encoding/json"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// invoker is an invoker as its record in etcd describes it.
type invoker struct {
	id     int
	health activation.Health
}

// need holds the requirements of a container to its invoker.
type need struct {
	namespace string
	memoryMB  int64
	pulled    bool     // the image must be pulled
	resources []string // required tags; nil means any invoker
	strict    bool     // if unset, an invoker without the tags is used when none has them
}

func needOf(f Function) need {
	n := need{namespace: f.Queue.Namespace, memoryMB: int64(f.action.Limits.MemoryMB), pulled: f.action.Exec.Pull, strict: true}
	if v, ok := f.action.Annotations.Get("invoker-resources"); ok {
		var tags []string
		if json.Unmarshal(v, &tags) == nil && len(tags) > 0 {
			n.resources = tags
		}
	}
	if v, ok := f.action.Annotations.Get("invoker-resources-strict-policy"); ok {
		n.strict = string(v) != "false"
	}
	return n
}

// usable returns the healthy invokers that have enough free memory and accept the
// namespace.
func usable(all []invoker, n need) []invoker {
	return slices.DeleteFunc(slices.Clone(all), func(i invoker) bool {
		dedicated := i.health.DedicatedNamespaces
		return i.health.Status != activation.Up || i.health.FreeMB < n.memoryMB ||
			len(dedicated) > 0 && !slices.Contains(dedicated, n.namespace)
	})
}

// candidates are the usable invokers among which one is drawn (ContainerManager.scala,
// docs/tag-based-scheduling.md).
func candidates(all []invoker, n need) ([]invoker, activation.CreationError) {
	if len(all) == 0 {
		return nil, "NoAvailableInvokersError"
	}
	var untagged, tagged, with []invoker
	for _, i := range all {
		if len(i.health.Tags) == 0 {
			untagged = append(untagged, i)
		} else {
			tagged = append(tagged, i)
		}
		if !slices.ContainsFunc(n.resources, func(tag string) bool { return !slices.Contains(i.health.Tags, tag) }) {
			with = append(with, i)
		}
	}
	switch {
	case n.resources == nil && len(untagged) > 0:
		// Nine in ten are for managed runtimes, the last for images that are pulled.
		managed := max(1, (len(untagged)*9+9)/10)
		if n.pulled {
			return untagged[len(untagged)-max(1, len(untagged)/10):], ""
		}
		return untagged[:managed], ""
	case n.resources == nil:
		return tagged, ""
	case len(with) > 0:
		return with, ""
	case n.strict:
		return nil, "NoAvailableResourceInvokersError"
	case len(untagged) > 0:
		return untagged, ""
	}
	return tagged, ""
}
