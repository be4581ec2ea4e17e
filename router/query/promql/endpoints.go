package promql

import api "github.com/tickmesh/tickmesh/api/endpoint"

// Endpoints implements endpoint.Lister: the table by which ServeHTTP routes.
func (h *handler) Endpoints() []string {
	all := append(api.Patterns(h.values.methods, pathPrefix+"label/{name}/values"), api.Patterns(h.federated.methods, pathFederate)...)
	for path, e := range h.endpoints {
		all = append(all, api.Patterns(e.methods, pathPrefix+path)...)
	}
	return api.Sorted(all)
}
