package harness

import (
	"fmt"
	"net"
)

// FreeAddresses gives count addresses on the loopback interface that nothing
// listens on. Another process may take one before it is used; who starts a
// server on them tries again then.
func FreeAddresses(count int) ([]string, error) {
	addresses := make([]string, 0, count)
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Kept open until all are found, so that none is given twice.
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
