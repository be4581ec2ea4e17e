package ingest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/budget"
)

// A request that waits for room gives its place up when its client hangs up, before, in the
// middle of and behind its body, and one that is at work its memory, at once.
func TestHungUpGivesItsRoomBack(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan struct{})
			limits := Limits{WriteTimeout: time.Hour}
			budgets := NewBudgets(limits)
			options := func(o *Options) {
				o.Limits, o.Budgets = limits, budgets
				o.Other = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/wait" {
						begun <- struct{}{}
						<-r.Context().Done()
						ended <- struct{}{}
					}
				})
			}
			var dialed func() net.Conn
			if secure {
				s := startSecured(t, options)
				dialed = func() net.Conn { return s.dial(t, s.Addresses().HTTP) }
			} else {
				s := start(t, options)
				dialed = func() net.Conn { return dial(t, s.Addresses().HTTP) }
			}
			until := func(what string, is func() bool) {
				t.Helper()
				for deadline := time.Now().Add(testTimeout); !is(); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("not %s: %+v", what, budgets.Reads.Stats())
					}
				}
			}
			waits := func(n int) func() bool { return func() bool { return budgets.Reads.Stats().Waiting == n } }
			// One request has almost all of the room.
			all := budgets.Reads.Lease(budget.Owner{})
			if !all.TryAcquire(budgets.Reads.BytesMax()) {
				t.Fatal("no room")
			}
			for _, sent := range []string{
				"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n",
				"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("h", 100_000),
				"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nfull",
				"GET /wait HTTP/1.1\r\nHost: x\r\n\r\nGET /wait HTTP/1.1\r\n", // the next one has begun
			} {
				c := dialed()
				fmt.Fprint(c, sent)
				until("waiting", waits(1))
				_ = c.Close()
				until("given up", waits(0))
			}
			// One that waits and stays is served, and its body is read to its end.
			c := dialed()
			fmt.Fprint(c, "POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("h", 50_000))
			until("waiting", waits(1))
			all.Close()
			until("served", waits(0))
			fmt.Fprint(c, strings.Repeat("e", 50_000))
			if answer, _ := readAnswer(t, bufio.NewReader(c)); answer.StatusCode != http.StatusOK {
				t.Errorf("%d", answer.StatusCode)
			}
			_ = c.Close()
			c = dialed()
			fmt.Fprint(c, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
			<-begun
			_ = c.Close()
			<-ended
			until("free", func() bool { return budgets.Reads.Stats().Used == 0 })
		})
	}
}
