package process

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The HTTP port of a node answers what is no request, or too large a one, with a refusal, and
// closes the connection.
func TestNodeRefusesBadRequests(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	node := c.startNode("n1")
	for name, request := range map[string]string{
		"header too large":      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + strings.Repeat("a", 128<<10) + "\r\n\r\n",
		"no host":               "GET /healthz HTTP/1.1\r\n\r\n",
		"two hosts":             "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n",
		"another version":       "GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
		"space before a colon":  "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n",
		"two lengths":           "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"a length that is none": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n",
		"unknown encoding":      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"folded header":         "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n",
		"LF without CR":         "GET /healthz HTTP/1.1\nHost: localhost\n\n",
		"LF at the end":         "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n",
		"length beside chunked": "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunked beside length": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"chunked in HTTP/1.0":   "GET /healthz HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", node.addr["http"])
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(waitMax))
		go fmt.Fprint(conn, request)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode < 400 || !response.Close {
			t.Errorf("%s: %+v, %v", name, response, err)
		}
		_ = conn.Close()
	}
	if status, body := get(t, node.url("/healthz")); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}
