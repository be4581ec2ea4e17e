package ingest

import (
	"bytes"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/series"
)

// BenchmarkServe is the processor time of one write of 200 points without its network.
func BenchmarkServe(b *testing.B) {
	for _, c := range []struct {
		name, target string
		put, known   bool
	}{
		{"line", "/write?db=d&precision=ms", false, false},
		{"put", "/api/put", true, false},
		{"line_by_token", "/write?db=a&precision=ms", false, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			k := &known{refs: map[string]series.Ref{}}
			o := Options{Writer: k, Resolver: k, Shards: 128}
			if c.known {
				o.Authenticator, _ = users(b)
			}
			s, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			raw := []byte(benchBody(1, c.put))
			var request fasthttp.RequestCtx
			content := bytes.NewReader(nil)
			b.ReportAllocs()
			for b.Loop() {
				request.Request.Reset()
				request.Response.Reset()
				request.Request.Header.SetMethod("POST")
				request.Request.SetRequestURI(c.target)
				if c.known {
					request.Request.Header.Set("Authorization", "Bearer t-writer")
				}
				content.Reset(raw)
				request.Request.SetBodyStream(content, len(raw))
				s.front.serve(&request)
			}
			if request.Response.StatusCode() != fasthttp.StatusNoContent {
				b.Fatal(request.Response.StatusCode())
			}
		})
	}
}
