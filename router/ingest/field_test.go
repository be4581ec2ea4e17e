package ingest

import (
	"bufio"
	"net/textproto"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/origin"
)

// Each name that is looked up is found, however the client has written it; a first field that
// is empty hides no second one.
func TestFields(t *testing.T) {
	for _, name := range []string{
		headerDatabase, headerIdempotencyKey, headerLevel, headerCopies, headerInfluxVersion,
		origin.HeaderFetchSite, origin.HeaderFetchMode, origin.HeaderFetchDest, origin.HeaderForwardedHost,
		fasthttp.HeaderAccept, fasthttp.HeaderAccessControlRequestHeaders, fasthttp.HeaderAccessControlRequestMethod,
		fasthttp.HeaderAuthorization, fasthttp.HeaderConnection, fasthttp.HeaderContentEncoding, fasthttp.HeaderOrigin,
	} {
		if want := textproto.CanonicalMIMEHeaderKey(name); name != want {
			t.Errorf("%s is looked up, and kept as %s", name, want)
		}
		for _, sent := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			var request fasthttp.RequestCtx
			text := "GET / HTTP/1.1\r\nHost: h\r\n" + sent + ":\r\n" + sent + ": second\r\n\r\n"
			if err := request.Request.Header.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
				t.Fatal(err)
			}
			if first := fieldOf(&request, name); first == nil || len(first) != 0 {
				t.Errorf("%s: the first value is %q, nil %v", sent, first, first == nil)
			}
			if all := fieldsOf(&request, name); len(all) != 2 || len(all[0]) != 0 || string(all[1]) != "second" {
				t.Errorf("%s: the values are %q", sent, all)
			}
			if fieldsOf(&request, "X-Not-Sent") != nil {
				t.Error("a field that was not sent is there")
			}
			setField(&request, name, []byte("v"))
			if got := request.Response.Header.Peek(name); string(got) != "v" {
				t.Errorf("%s of the answer is %q", name, got)
			}
		}
	}
	if !strings.EqualFold(headerDatabase, access.DatabaseHeader) {
		t.Errorf("%s is not %s", headerDatabase, access.DatabaseHeader)
	}
}
