package ingest

import "github.com/valyala/fasthttp"

func influxError(message string) []byte {
	return append(appendJSONMember([]byte{'{'}, "error", message), "}\n"...)
}

func influx2Error(status int, message string) (code string, body []byte) {
	code = influx2Code(status)
	body = appendJSONMember([]byte{'{'}, "code", code)
	return code, append(appendJSONMember(append(body, ','), "message", message), '}')
}

// influx2Code returns InfluxDB 2's name of a status (kit/platform/errors).
func influx2Code(status int) string {
	switch status {
	case fasthttp.StatusMethodNotAllowed:
		return "method not allowed"
	case fasthttp.StatusRequestEntityTooLarge:
		return "request too large"
	case fasthttp.StatusUnauthorized:
		return "unauthorized"
	case fasthttp.StatusForbidden:
		return "forbidden"
	case fasthttp.StatusServiceUnavailable:
		return "unavailable"
	default:
		return "invalid"
	}
}
