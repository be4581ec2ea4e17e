package ingest

import (
	"net"
	"net/http"
	"net/url"

	"github.com/valyala/fasthttp"
)

// head is what admission reads of a request, whichever server has parsed it.
type head interface {
	method() string
	reads() bool       // the method is GET or HEAD
	target() []byte    // as it was sent
	authority() []byte // of a target in absolute form
	host() []byte
	path() []byte             // decoded
	pathSent() []byte         // as it was sent
	setPath(rest []byte)      // of a request whose path began with its database
	field(name string) []byte // the first of the name; nil: there is none
	fields(name string) [][]byte
	args() (user, password string, ok bool) // the parameters u and p
	from() net.Addr
	conn() *conn // nil: a test has none
}

// pointsHead is the head of a request of the server of points.
type pointsHead fasthttp.RequestCtx

func headOf(request *fasthttp.RequestCtx) *pointsHead { return (*pointsHead)(request) }

func (h *pointsHead) request() *fasthttp.RequestCtx { return (*fasthttp.RequestCtx)(h) }
func (h *pointsHead) method() string                { return string(h.request().Method()) }
func (h *pointsHead) target() []byte                { return h.request().RequestURI() }
func (h *pointsHead) reads() bool                   { return h.request().IsGet() || h.request().IsHead() }
func (h *pointsHead) authority() []byte {
	if target := h.target(); len(target) > 0 && target[0] != '/' {
		return h.request().URI().Host()
	}
	return nil
}
func (h *pointsHead) host() []byte                { return h.request().Request.Header.Host() }
func (h *pointsHead) path() []byte                { return h.request().Path() }
func (h *pointsHead) pathSent() []byte            { return h.request().URI().PathOriginal() }
func (h *pointsHead) setPath(rest []byte)         { h.request().URI().SetPathBytes(rest) }
func (h *pointsHead) field(name string) []byte    { return fieldOf(h.request(), name) }
func (h *pointsHead) fields(name string) [][]byte { return fieldsOf(h.request(), name) }
func (h *pointsHead) args() (user, password string, ok bool) {
	args := h.request().QueryArgs()
	if !args.Has("u") || !args.Has("p") {
		return "", "", false
	}
	return string(args.Peek("u")), string(args.Peek("p")), true
}
func (h *pointsHead) from() net.Addr { return h.request().RemoteAddr() }
func (h *pointsHead) conn() *conn {
	c, _ := h.request().Conn().(*conn)
	return c
}

// questionHead is the head of a request of the server of questions.
type questionHead struct {
	request *http.Request
	of      *conn
}

func (h *questionHead) method() string { return h.request.Method }
func (h *questionHead) reads() bool {
	return h.request.Method == http.MethodGet || h.request.Method == http.MethodHead
}
func (h *questionHead) target() []byte    { return []byte(h.request.RequestURI) }
func (h *questionHead) authority() []byte { return []byte(h.request.URL.Host) }
func (h *questionHead) host() []byte      { return []byte(h.request.Host) }
func (h *questionHead) path() []byte      { return []byte(h.request.URL.Path) }
func (h *questionHead) pathSent() []byte {
	if sent := h.request.URL.RawPath; sent != "" { // EscapedPath has another path than was sent if that has bytes to be escaped
		return []byte(sent)
	}
	return []byte(h.request.URL.EscapedPath())
}
func (h *questionHead) setPath(rest []byte) {
	u := *h.request.URL
	u.RawPath = string(rest)
	u.Path, _ = url.PathUnescape(u.RawPath) // splitDatabase has decoded it
	u.Scheme, u.Host = "", ""
	h.request.URL, h.request.RequestURI = &u, u.RequestURI()
}
func (h *questionHead) field(name string) []byte {
	if all := h.request.Header[name]; len(all) > 0 {
		return []byte(all[0])
	}
	return nil
}
func (h *questionHead) fields(name string) (all [][]byte) {
	for _, value := range h.request.Header[name] {
		all = append(all, []byte(value))
	}
	return all
}
func (h *questionHead) args() (user, password string, ok bool) {
	args := h.request.URL.Query()
	return args.Get("u"), args.Get("p"), args.Has("u") && args.Has("p")
}
func (h *questionHead) from() net.Addr { return h.of.RemoteAddr() }
func (h *questionHead) conn() *conn    { return h.of }
