package ingest

import (
	"net/http"

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
