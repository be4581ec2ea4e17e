package ingest

import (
	"bytes"
	"net/http"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/endpoint"
)

// Endpoints implements endpoint.Lister: the tables by which the HTTP listener routes, and
// what Options.Other lists.
func (s *Server) Endpoints() []string {
	var all []string
	for path, d := range s.front.dialects {
		methods := []string{http.MethodPost}
		if d.put {
			methods = append(methods, http.MethodPut)
		}
		all = append(all, endpoint.Patterns(methods, path)...)
	}
	for path := range s.front.probes {
		all = append(all, endpoint.Patterns([]string{http.MethodGet, http.MethodHead}, path)...)
	}
	if other, ok := s.options.Other.(endpoint.Lister); ok {
		all = append(all, other.Endpoints()...)
	}
	return endpoint.Sorted(all)
}

// isOpen reports whether a request is one that everybody may make: it only asks how the server
// is. The target counts as it was sent, so that nothing else can be reached under the name.
func isOpen(h head) bool {
	if !h.reads() {
		return false
	}
	path, _, _ := bytes.Cut(h.target(), []byte("?"))
	return access.IsProbePath(string(path)) || string(path) == pathHealth || string(path) == pathPing
}

// pathPage begins the paths of the page for browsers, besides "/".
const pathPage = "/ui"

// isPage reports whether a path is one of the page for browsers, which asks by itself who is there.
func isPage(path []byte) bool {
	rest, found := bytes.CutPrefix(path, []byte(pathPage))
	return string(path) == "/" || found && (len(rest) == 0 || rest[0] == '/')
}
