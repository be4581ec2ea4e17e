package ingest

import (
	"net"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

func sendDatagrams(t *testing.T, to net.Addr, all ...string) {
	t.Helper()
	c, err := net.Dial("udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, one := range all {
		if _, err := c.Write([]byte(one)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUDP(t *testing.T) {
	for _, c := range []struct {
		name   string
		format UDPFormat
		send   []string
		stored []string
	}{
		{"put", UDPPut, []string{"put m 1700000000 1 a=b", "put m 1700000001 2 a=b\nput m 1700000002 3 a=b\n", "", "bad", "m 1700000003 4 a=b\r\n"},
			[]string{"m{a=b} 1700000000000 1", "m{a=b} 1700000001000 2", "m{a=b} 1700000002000 3", "m{a=b} 1700000003000 4"}},
		{"line", UDPLine, []string{"m,a=b value=1 1700000000", "bad", "m,a=b value=2 1700000001000\n"},
			[]string{"m{a=b} 1700000000000 1", "m{a=b} 1700000001000 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, func(o *Options) { o.UDPAddress = "127.0.0.1:0"; o.UDP.Format = c.format })
			sendDatagrams(t, r.Addresses().UDP, c.send...)
			eventually(t, "all points stored", func() bool { return r.total() == len(c.stored) })
			equalLines(t, "stored", r.stored(), c.stored)
		})
	}
}

func TestUDPDropsUnderOverload(t *testing.T) {
	r := start(t, func(o *Options) {
		o.UDPAddress = "127.0.0.1:0"
		o.UDP.RetryTimeout = time.Millisecond
		o.TCP.RetryDelayMin = time.Millisecond
	})
	r.beforeWrites(failing(series.ErrOverloaded, "no"))
	sendDatagrams(t, r.Addresses().UDP, "put m 1700000000 1 a=b")
	eventually(t, "a counted drop", func() bool { return r.metric(t, "tickmesh_ingest_dropped_total", "cause=write") == 1 })
}

// The kernel's count of what it had no room for becomes a metric.
func TestUDPKernelDrops(t *testing.T) {
	gate := make(chan struct{})
	r := start(t, func(o *Options) {
		o.UDPAddress = "127.0.0.1:0"
		o.UDP.ReceiveBufferBytes = 4096
		o.UDP.BatchMax = 1
	})
	r.beforeWrites(gated(gate))
	one := "put m 1700000000 1 a=b"
	for range 500 {
		sendDatagrams(t, r.Addresses().UDP, one)
	}
	close(gate)
	eventually(t, "a counted drop", func() bool {
		sendDatagrams(t, r.Addresses().UDP, one) // the count comes with the next datagram that fits
		return r.metric(t, "tickmesh_ingest_dropped_total", "cause=kernel") > 0
	})
}
