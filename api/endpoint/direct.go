package endpoint

import (
	"net/http"
	"strings"
)

// direct finds the handlers of paths that only one pattern can match, as http.ServeMux does, but without its walk through a
// tree and the memory that this takes: that was a tenth of all allocations of a small query. The requests that it finds have
// no Pattern.
type direct struct {
	paths map[string]http.Handler // of patterns without a method; nil: ServeMux has to look
	ends  map[string]struct{}     // paths of which a pattern with {$} tells
	wild  bool                    // a pattern has a wildcard: only paths that are a pattern are found
	off   bool                    // a pattern has a host
}

// add takes a pattern that was registered.
func (d *direct) add(pattern string, handler http.Handler) {
	if d.paths == nil {
		d.paths, d.ends = map[string]http.Handler{}, map[string]struct{}{}
	}
	path := pattern
	if _, rest, ok := strings.Cut(pattern, " "); ok { // a method
		path, handler = strings.TrimLeft(rest, " \t"), nil
	}
	exact, ends := strings.CutSuffix(path, "{$}")
	switch _, known := d.paths[path]; {
	case !strings.HasPrefix(path, "/"):
		d.off = true
	case strings.Contains(exact, "{"):
		d.wild = true
	case ends:
		d.ends[exact] = struct{}{}
	case known:
		d.paths[path] = nil
	default:
		d.paths[path] = handler
	}
}

// find returns the handler of a request, or nil: ServeMux is to find it.
func (d *direct) find(r *http.Request) http.Handler {
	path := r.URL.Path
	if d.off || r.URL.RawPath != "" || r.Method == http.MethodConnect || !strings.HasPrefix(path, "/") ||
		strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return nil // or ServeMux would redirect to a clean path, or match another text
	}
	if _, ends := d.ends[path]; ends {
		return nil
	}
	if handler, known := d.paths[path]; known {
		return handler
	}
	if d.wild {
		return nil
	}
	_, subtree := d.paths[path+"/"]
	if _, ends := d.ends[path+"/"]; subtree || ends {
		return nil // ServeMux redirects to it
	}
	for end := len(path) - 1; end >= 0; end-- {
		if path[end] != '/' {
			continue
		}
		if handler, known := d.paths[path[:end+1]]; known {
			return handler
		}
	}
	return nil
}
