package influxql

import "net/http"

// RefuseFlux answers /api/v2/query, in the error shape of InfluxDB 2: Flux is not spoken.
func RefuseFlux(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set(headerVersion, version)
	w.WriteHeader(http.StatusNotImplemented)
	_, _ = w.Write([]byte(`{"code":"not implemented","message":"Flux is not supported: send InfluxQL to /query"}` + "\n"))
}
