package load

import "strconv"

// AppendPost appends the head of a POST request whose body has the given length.
func AppendPost(dst []byte, host, path string, bodyBytes int) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, host...)
	dst = append(dst, "\r\nContent-Type: text/plain\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(bodyBytes), 10)
	return append(dst, "\r\n\r\n"...)
}

// AppendGet appends a GET request.
func AppendGet(dst []byte, host, path string) []byte {
	dst = append(dst, "GET "...)
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, host...)
	return append(dst, "\r\n\r\n"...)
}
