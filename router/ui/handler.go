package ui

import (
	"net/http"

	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/scan"
)

// Paths below which New's handler wants to be mounted, besides "/" itself.
const (
	pathAssets = "/ui/assets/"
	pathAPI    = "/ui/api/"
)

// handler is the page and its JSON.
type handler struct {
	Options
	source    scan.Source // that counts what is read
	files     *files
	snapshots *snapshots
	history   history
}

// Page is the handler of "/" and of all below "/ui/".
type Page struct {
	http.Handler
	handler   *handler
	endpoints []string
}

// Endpoints implements endpoint.Lister.
func (p *Page) Endpoints() []string { return p.endpoints }

// New makes a Page. Errors: ErrOptions.
func New(o Options) (*Page, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	files, err := newFiles(embedded())
	if err != nil {
		return nil, err
	}
	h := &handler{
		Options: o, source: o.Admission.Source(o.Source), files: files,
		snapshots: newSnapshots(o.Status, o.Gatherer, o.Clock),
	}
	m := &endpoint.Mux{}
	m.HandleFunc("GET /{$}", h.page)
	m.HandleFunc("GET /ui/{$}", toPage("../"))
	m.HandleFunc("GET /ui", toPage("./"))
	m.HandleFunc("GET "+pathAssets+"{name}", h.asset)
	m.HandleFunc("GET "+pathAPI+"about", h.answering(h.about))
	m.HandleFunc("GET "+pathAPI+"databases", h.answering(h.databases))
	m.HandleFunc("GET "+pathAPI+"metrics", h.answering(h.metrics))
	m.HandleFunc("GET "+pathAPI+"names", h.answering(h.names))
	m.HandleFunc("GET "+pathAPI+"counts", h.answering(h.counts))
	m.HandleFunc("GET "+pathAPI+"tags", h.answering(h.tags))
	m.HandleFunc("GET "+pathAPI+"status", h.answering(h.status))
	m.HandleFunc("GET "+pathAPI+"live", h.answering(h.live))
	m.HandleFunc("GET "+pathAPI+"history", h.answering(h.past))
	m.HandleFunc("GET "+pathAPI+"queries", h.answering(h.queries))
	m.HandleFunc("POST "+pathAPI+"cancel", h.answering(h.cancel))
	m.HandleFunc(pathAPI, h.answering(nowhere))
	return &Page{protected(m), h, m.Endpoints()}, nil
}

// contentSecurityPolicy allows the page to load only from where it came. Nothing may show it in
// a frame, and it sends forms nowhere.
const contentSecurityPolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// protected sets the headers of every answer to browsers.
func protected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// toPage sends a browser to the page. The place is relative: only the browser knows which
// prefixes stand before the path.
func toPage(relative string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", relative)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}
