package mqtt

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// A broker that takes nothing holds nobody up for ever who acknowledges, or says goodbye.
func TestBrokerThatDoesNotRead(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	conn := newBufferedConn(here, time.Millisecond)
	defer conn.Close()
	for range 2 {
		if _, err := packets.NewControlPacket(packets.DISCONNECT).WriteTo(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
}
