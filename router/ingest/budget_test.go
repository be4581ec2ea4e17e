package ingest

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/tickmesh/tickmesh/api/budget"
)

// symbolBomb is a body of remote write 2.0 whose series name one long symbol again and again.
func symbolBomb(seriesCount, symbolBytes int) []byte {
	field := func(dst []byte, number byte, content []byte) []byte {
		dst = binary.AppendUvarint(append(dst, number<<3|2), uint64(len(content)))
		return append(dst, content...)
	}
	body := field(nil, 4, nil)
	for _, symbol := range []string{"__name__", "m", "label", strings.Repeat("x", symbolBytes), "n"} {
		body = field(body, 4, []byte(symbol))
	}
	numbers := binary.AppendUvarint(nil, 6)
	for i := range seriesCount { // a symbol for each series, so that none is like another
		body = field(body, 4, fmt.Append(nil, i))
		numbers = binary.AppendUvarint(numbers[:0], uint64(6+i))
		references := append([]byte{1, 2, 3, 4, 5}, numbers...)
		sample := append([]byte{1<<3 | 1, 0, 0, 0, 0, 0, 0, 0, 64, 2 << 3}, binary.AppendUvarint(nil, 1_700_000_000_000)...)
		body = field(body, 5, field(field(nil, 1, references), 2, sample))
	}
	return snappy.Encode(nil, body)
}

// Ten bodies of a few kilobytes that become gigabytes are refused with what they had, and
// leave room for another address meanwhile and for all afterwards.
func TestSymbolBombsAreBounded(t *testing.T) {
	const bytesMax = 64 << 20
	pools := Budgets{Writes: budget.New(bytesMax, 200*time.Millisecond), Reads: budget.New(bytesMax, time.Second)}
	r := start(t, func(o *Options) { o.Budgets = pools; o.Limits.InFlightBytesMax = 128 << 20 })
	bomb := string(symbolBomb(20_000, 8000)) // 160 MB of labels
	head := []string{"Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request", "Content-Encoding: snappy"}
	var senders sync.WaitGroup
	for range 10 {
		senders.Go(func() {
			c := dial(t, r.Addresses().HTTP)
			send(t, c, request("/api/v1/write", bomb, head...))
			response, body := readAnswer(t, bufio.NewReader(c))
			if response.StatusCode != http.StatusServiceUnavailable && response.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%d %s", response.StatusCode, body)
			}
		})
	}
	neighbour := pools.Writes.Lease(budget.Owner{Tenant: "neighbour"})
	for range 20 {
		if err := neighbour.Acquire(context.Background(), 64<<10); err != nil {
			t.Error(err)
		}
		neighbour.Close()
		time.Sleep(5 * time.Millisecond)
	}
	senders.Wait()
	eventually(t, "nothing in flight", func() bool { return pools.Writes.Stats().Used == 0 })
	if kept := r.workers.mu.kept; kept > r.workers.keptMax {
		t.Errorf("%d bytes are kept", kept)
	}
	if response, body := r.post(t, request("/write?db=d", "m value=1 1700000000000000000\n")); response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// Bodies of queries, however many, take nothing from writes.
func TestQueriesLeaveWritesAlone(t *testing.T) {
	blocked := make(chan struct{})
	r := start(t, func(o *Options) {
		o.Other = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-blocked })
		o.Limits.WriteTimeout = 100 * time.Millisecond
	})
	reads := r.budgets.Reads
	body := strings.Repeat("x", 2<<20)
	for range 40 {
		send(t, dial(t, r.Addresses().HTTP), request("/api/v1/query", body))
	}
	eventually(t, "no room for bodies of queries", func() bool { return reads.Stats().Refused > 0 })
	if used := r.budgets.Writes.Stats().Used; used != 0 {
		t.Errorf("queries hold %d bytes of writes", used)
	}
	if response, body := r.post(t, request("/write?db=d", "m value=1 1700000000000000000\n")); response.StatusCode != 204 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	close(blocked)
	eventually(t, "nothing is held", func() bool { return reads.Stats().Used == 0 })
}
