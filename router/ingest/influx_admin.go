package ingest

import "net/http"

// ping answers /ping: 204, or 200 with the version for ?verbose.
func ping(w *answer, r *http.Request) {
	w.header.Set(headerInfluxVersion, influxVersion)
	w.header.Set(headerInfluxBuild, "OSS")
	if !w.isRead(r) {
		return
	}
	if verbose := r.URL.Query().Get("verbose"); verbose == "" || verbose == "0" || verbose == "false" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.respond(http.StatusOK, contentInflux, append(appendJSONMember([]byte{'{'}, "version", influxVersion), '}'))
}

// health answers /health: the process takes requests. Whether the storage takes
// writes is what a write is told.
func health(w *answer, r *http.Request) {
	w.header.Set(headerInfluxVersion, influxVersion)
	if !w.isRead(r) {
		return
	}
	body := append([]byte(nil), `{"checks":[],"message":"ready for queries and writes","name":"influxdb","status":"pass",`...)
	w.respond(http.StatusOK, contentInflux, append(appendJSONMember(body, "version", influxVersion), '}'))
}

// isRead reports whether the method is GET or HEAD, and answers others.
func (w *answer) isRead(r *http.Request) bool {
	w.leaveBody()
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.header.Set("Allow", "GET, HEAD")
	w.respond(http.StatusMethodNotAllowed, contentInflux, []byte(`{"error":"method not allowed"}`+"\n"))
	return false
}
