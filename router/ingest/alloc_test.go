//go:build !race

package ingest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/series"
)

// A write of known series allocates nothing per request.
func TestWritesDoNotAllocate(t *testing.T) {
	for target, body := range map[string]string{
		"/write?db=d&precision=ms": benchBody(1, false),
		"/api/put":                 benchBody(1, true),
		"/api/put?sync":            "[" + onePoint + "," + onePoint + "]",
		"/write?db=a&as=writer":    benchBody(1, false),
		"/api/v1/write":            block(series1([]string{"__name__", "up", "replica", "0"}, sample{1, 1000})),
		"/api/v1/write?of=pair":    block(series1([]string{"__name__", "up", "replica", "0"}, sample{1, 1000})),
	} {
		k := &known{refs: map[string]series.Ref{}}
		o := Options{Writer: k, Resolver: k, Shards: 128}
		if strings.HasSuffix(target, "of=pair") {
			o.ReplicaLabel = "replica"
		}
		authenticated := strings.HasSuffix(target, "as=writer")
		if authenticated {
			o.Authenticator, _ = users(t)
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		raw := []byte(body)
		var ctx fasthttp.RequestCtx
		content := bytes.NewReader(nil)
		one := func() {
			ctx.Request.Reset()
			ctx.Response.Reset()
			ctx.Request.Header.SetMethod("POST")
			ctx.Request.SetRequestURI(target)
			if authenticated {
				ctx.Request.Header.Set("Authorization", "Bearer t-writer")
			}
			content.Reset(raw)
			ctx.Request.SetBodyStream(content, len(body))
			s.front.serve(&ctx)
		}
		one()
		if ctx.Response.StatusCode() != fasthttp.StatusNoContent {
			t.Fatalf("%s: %d %s", target, ctx.Response.StatusCode(), ctx.Response.Body())
		}
		for range 10 {
			one()
		}

		bound := 1.0
		if strings.HasPrefix(target, "/api/v1/write") {
			bound = 2 // its answer has one
		}
		if n := testing.AllocsPerRun(200, one); n >= bound {
			t.Errorf("%s: %v allocations per request", target, n)
		}
	}
}
