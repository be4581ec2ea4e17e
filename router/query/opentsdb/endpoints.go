package opentsdb

import api "github.com/tickmesh/tickmesh/api/endpoint"

// Endpoints implements endpoint.Lister: the table by which ServeHTTP routes.
func (h *handler) Endpoints() []string {
	var all []string
	for path, e := range h.endpoints {
		all = append(all, api.Patterns(e.methods, "/api/"+path)...)
	}
	return api.Sorted(all)
}
