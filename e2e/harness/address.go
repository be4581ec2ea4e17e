package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddresses returns count addresses of the loopback interface that nothing listens on.
// Each is on a host of its own, drawn from the sixteen million that the interface has: a
// port of 127.0.0.1 may be given to another listener before it is used.
func FreeAddresses(count int) ([]string, error) {
	addresses := make([]string, 0, count)
	for range count {
		host := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
		listener, err := net.Listen("tcp4", net.JoinHostPort(host.String(), "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Kept open until all are found, so that none is given twice.
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
