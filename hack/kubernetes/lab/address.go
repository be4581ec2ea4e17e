package lab

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// The lab's addresses. All are inside the rack's network namespace, so that they can
// stand for other things outside.
const (
	rackAddress    = "10.99.0.1" // of the API server too
	machineNetwork = "10.99.0.0/24"
	serviceNetwork = "10.96.0.0/16"
	podNetwork     = "10.244.0.0/16"
	apiService     = "10.96.0.1"
	dnsService     = "10.96.0.10"
	apiPort        = 6443
	bridgeName     = "rack"
)

// nodesMax is how many machines the lab may have. Certificates and routes of all of
// them exist from the start; it bounds memory too: an empty node takes 200 MB.
const nodesMax = 9

// A node is one machine of the lab, by its number from 1.
type node int

// parseNode reads a name as [node.name] gives it.
func parseNode(name string) (node, error) {
	digits, ok := strings.CutPrefix(name, "node")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > nodesMax || node(n).name() != name {
		return 0, fmt.Errorf("no such machine: %q; there are node1 to node%d", name, nodesMax)
	}
	return node(n), nil
}

func (n node) name() string    { return "node" + strconv.Itoa(int(n)) }
func (n node) address() string { return "10.99.0." + strconv.Itoa(10+int(n)) }
func (n node) pods() string    { return "10.244." + strconv.Itoa(int(n)) + ".0/24" }

// link is the name of the rack's end of the machine's cable.
func (n node) link() string { return n.name() + "-cable" }

// zone returns each machine one of three zones in turn.
func (n node) zone() string { return "zone-" + string(rune('a'+(int(n)-1)%3)) }

func allNodes() []node {
	nodes := make([]node, nodesMax)
	for i := range nodes {
		nodes[i] = node(i + 1)
	}
	return nodes
}

// apiURL is where the API server listens.
func apiURL() string {
	return "https://" + net.JoinHostPort(rackAddress, strconv.Itoa(apiPort))
}
