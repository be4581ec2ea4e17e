package mqtt

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// A broker with TLS is believed if its certificate is signed by ca-file, and by nobody else; one without is told of.
func TestTLS(t *testing.T) {
	made := httptest.NewTLSServer(nil) // for its certificate, which is of 127.0.0.1
	defer made.Close()
	b := startBroker(t, "", &tls.Config{Certificates: made.TLS.Certificates})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeText(t, ca, "no certificate")
	file := strings.Replace(fileOf(addressOf(t, b), "    ca-file: "+ca+"\n", timedJSON), "mqtt://", "mqtts://", 1)
	stranger := startLab(t, strings.Replace(strings.Replace(file, "    ca-file: "+ca+"\n", "", 1), "client-id: c", "client-id: d", 1), nil, memoryBytes)
	l := startLab(t, file, nil, memoryBytes)
	waitFor(t, "told of the file", func() bool { return strings.Contains(l.log.String(), "has no certificate in PEM") })
	writeText(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate().Raw})))
	l.waitConnected(t)
	publish(t, b, "sensors/den/power", `{"ts":1,"w":1}`)
	waitFor(t, "written", func() bool { return len(l.stored()) == 1 })
	waitFor(t, "told of a stranger", func() bool { return strings.Contains(stranger.log.String(), "certificate signed by unknown authority") })
	plain := startBroker(t, "", nil)
	l = startLab(t, strings.Replace(fileOf(addressOf(t, plain), "", timedJSON), "mqtt://", "mqtts://", 1), nil, memoryBytes)
	waitFor(t, "told of a port without TLS", func() bool { return strings.Contains(l.log.String(), "check that this port of it has TLS") })
	if stranger.metric(t, "connects_total", "connected") != 0 {
		t.Error("the stranger is believed")
	}
}
