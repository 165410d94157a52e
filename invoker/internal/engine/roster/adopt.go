package roster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Labels of every container. By the first an operator finds the containers of an
// invoker; the next process of the invoker reads the others.
const (
	LabelInvoker = "org.gpuwhisk.invoker" // the head of its containers' names, such as wsk00
	labelMemory  = "org.gpuwhisk.memory"  // MiB
	LabelSeal    = "org.gpuwhisk.seal"
)

// sealVersion is a part of every seal. It changes when containers of older
// versions must not be adopted.
const sealVersion = 1

// Invoker returns the value of LabelInvoker for the prefix of an invoker's containers.
func Invoker(prefix string) string { return strings.TrimSuffix(prefix, "_") }

// Label adds the labels of a container to others. The parts are all that the container is
// made with, its name aside: their digest is the seal.
func Label(labels map[string]string, prefix string, spec container.Spec, parts ...any) error {
	text, err := json.Marshal(append([]any{sealVersion}, parts...))
	if err != nil {
		return fmt.Errorf("seal container %s: %w", spec.Name, err)
	}
	sum := sha256.Sum256(text)
	labels[LabelInvoker] = Invoker(prefix)
	labels[labelMemory] = strconv.Itoa(spec.MemoryMB)
	labels[LabelSeal] = hex.EncodeToString(sum[:16])
	return nil
}

// Labelled returns a container as its labels describe it.
func Labelled(id string, labels map[string]string) container.Leftover {
	memory, _ := strconv.Atoi(labels[labelMemory]) // 0 where there is none
	return container.Leftover{ID: container.ID(id), MemoryMB: memory, Digest: labels[LabelSeal]}
}

// Leftovers lists the containers whose names start with prefix.
func (r *Roster) Leftovers(ctx context.Context, prefix string) ([]container.Leftover, error) {
	ctx, cancel := Limited(ctx, r.options.Timeouts.List)
	defer cancel()
	found, err := r.options.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list containers %s*: %w", prefix, err)
	}
	slices.SortFunc(found, func(a, b container.Leftover) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Adopt adopts containers that another process has made. It returns an error for each
// that Create would make in another way now, or that is gone. From now on the deaths of
// adopted containers are reported, and their output is read, without the output of earlier
// activations.
func (r *Roster) Adopt(ctx context.Context, lefts []container.Leftover, specs []container.Spec) []error {
	errs := make([]error, len(lefts))
	for i, l := range lefts {
		if errs[i] = r.options.Fit(ctx, l, specs[i]); errs[i] != nil {
			continue
		}
		r.Remember(l.ID)
		r.handOut(l.ID)
		if errs[i] = r.skipLog(ctx, l.ID); errs[i] != nil {
			r.Forget(l.ID)
		}
	}
	// A container that ended since the list is reported as any other death.
	if err := r.reconcile(ctx); err != nil {
		r.options.Log.Warn("check containers that were adopted", "error", err)
	}
	return errs
}

func (r *Roster) skipLog(ctx context.Context, id container.ID) error {
	_, tail := r.Tail(id)
	if tail == nil {
		return fmt.Errorf("open the log of container %s: %w", id, errClosed)
	}
	if err := tail.Skip(ctx); err != nil {
		return fmt.Errorf("find the end of its log: %w", err)
	}
	return nil
}
