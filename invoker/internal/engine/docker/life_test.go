package docker

import (
	"errors"
	"net/http"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// TestMissingRequestIsNoMissingContainer: an engine, or a proxy before it, answers 404 also
// to a request that it does not serve.
func TestMissingRequestIsNoMissingContainer(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	unserved := map[string]error{ // the fake daemon has no such paths
		"resume": e.Resume(t.Context(), "id1"), "resize": e.Resize(t.Context(), "id1", 1<<28),
	}
	for text, gone := range map[string]bool{
		"No such container: id1": true, "no container with name or ID \"id1\" found: no such container": true,
		"page not found": false, "Not Found": false,
	} {
		d.onPause = func(w http.ResponseWriter, _ string) bool { refuse(w, http.StatusNotFound, text); return true }
		err := e.Pause(t.Context(), "id1")
		check.Equal(t, errors.Is(err, container.ErrGone), gone, "%s: %v", text, err)
		if !gone {
			unserved["pause: "+text] = err
		}
	}
	for name, err := range unserved {
		check.That(t, !errors.Is(err, container.ErrGone), "%s: %v", name, err)
		check.ErrorContains(t, err, "does not serve this request", "%s", name)
		check.ErrorContains(t, err, "whisk.gpu.docker.host", "%s", name)
	}
}
