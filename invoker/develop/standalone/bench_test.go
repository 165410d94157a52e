package standalone

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// BenchmarkBlockingCall measures a blocking call through REST API, controller and
// embedded broker to an invoker that answers at once. The invoker writes a record for
// each call, one by one.
func BenchmarkBlockingCall(b *testing.B) {
	f := &fakeInvoker{run: func(m *activation.Message) activation.Response { return activation.Response{Result: m.Content} }}
	s, err := Start(b.Context(), Options{Data: b.TempDir(), Runtime: "process", Invoker: f.start})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			b.Error(err)
		}
	}()
	if err := s.WaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	key := s.Info().Guest()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	send := func(method, path, body string) int {
		req, err := http.NewRequest(method, s.Info().APIHost+"/api/v1/namespaces/_/actions/"+path, strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return 0
		}
		req.SetBasicAuth(key.UUID, key.Key)
		res, err := transport.RoundTrip(req)
		if err != nil {
			b.Error(err)
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if code := send("PUT", "a", `{"exec":{"kind":"nodejs:20","code":"x"}}`); code != 200 {
		b.Fatal(code)
	}
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if code := send("POST", "a?blocking=true", `{"n":1}`); code != 200 {
				b.Error(code)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
