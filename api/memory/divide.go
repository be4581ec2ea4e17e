package memory

// Role is what a process does with its memory.
type Role uint8

// The roles.
const (
	Standalone   Role = iota // the ports of clients and one node, in one process
	Router                   // the ports of clients
	Node                     // a node of a cluster
	LocalCluster             // a router and several nodes, in one process
	roles
)

// Share is a part of a process's memory, by the kind of its holders. The package's
// documentation lists them.
type Share string

// The shares.
const (
	Writes      Share = "writes"
	Reads       Share = "reads"
	Calls       Share = "calls"
	Queries     Share = "queries"
	Cache       Share = "cache"
	Forwards    Share = "forwards"
	IDs         Share = "ids"
	Messages    Share = "messages"
	Scans       Share = "scans"
	Inbox       Share = "inbox"
	Outbox      Share = "outbox"
	Entries     Share = "entries"
	Series      Share = "series"
	Maintenance Share = "maintenance"
	Spare       Share = "spare"
)

// allShares returns the shares in the order of logs and of the package's documentation.
func allShares() []Share {
	return []Share{Writes, Reads, Calls, Queries, Cache, Forwards, IDs, Messages, Scans, Inbox, Outbox, Entries, Series, Maintenance, Spare}
}

// parts is the number of parts that a limit is divided into.
const parts = 64

// partsOf returns the shares of a role in parts of the limit, as in the table of the package's
// documentation.
func partsOf(r Role) map[Share]int64 {
	switch r {
	case Router:
		return map[Share]int64{Writes: 17, Reads: 3, Calls: 3, Queries: 12, Cache: 3, Forwards: 8, IDs: 8, Spare: 10}
	case Node:
		return map[Share]int64{Calls: 3, Messages: 12, Scans: 3, Inbox: 4, Outbox: 2, Entries: 9, Series: 20, Maintenance: 6, Spare: 5}
	case LocalCluster:
		return map[Share]int64{
			Writes: 12, Reads: 3, Calls: 2, Queries: 5, Cache: 2, Forwards: 3, IDs: 3,
			Messages: 5, Scans: 2, Inbox: 2, Outbox: 1, Entries: 5, Series: 12, Maintenance: 3, Spare: 4,
		}
	}
	return map[Share]int64{Writes: 17, Reads: 3, Calls: 3, Queries: 7, Cache: 2, Entries: 3, Series: 19, Maintenance: 5, Spare: 5}
}

// goPart returns the fraction of a limit that is the soft limit of Go's runtime.
func goPart(r Role) (numerator, denominator int64) {
	if r == Router {
		return 3, 4
	}
	return 1, 2
}

// Division is the result of Divide: the shares of a process.
type Division struct {
	LimitBytes      int64
	GoBytes         int64 // soft limit of Go's runtime
	GenerationBytes int64 // of a node's page log
	nodes           int64
	shares          map[Share]int64
}

// Process describes a process as far as its division depends on it.
type Process struct {
	Role        Role
	Nodes       int   // of a process with storage; 0 is 1
	ExtentBytes int64 // of their page logs
	// Most has the bytes that shares can use at most, of all nodes together. A share without an
	// entry can use all of its parts. What shares cannot use is added to Series, or to Spare in a
	// process without storage.
	Most map[Share]int64
}

// Divide divides a limit. It is a pure function.
//
// An eighth of the limit is for the generation of the page log that is being filled: queries read
// its pages one by one, and a flush reads it several times, so it should stay in the kernel's cache.
func Divide(limitBytes int64, p Process) Division {
	numerator, denominator := goPart(p.Role)
	d := Division{LimitBytes: limitBytes, GoBytes: limitBytes / denominator * numerator, GenerationBytes: generationBytesMax, nodes: int64(max(p.Nodes, 1)), shares: map[Share]int64{}}
	if limitBytes == Unlimited {
		d.GoBytes = Unlimited
	} else {
		d.GenerationBytes = min(max(limitBytes/8, generationBytesMin), generationBytesMax)
	}
	extentBytes := max(p.ExtentBytes, 1)
	d.GenerationBytes = max(d.GenerationBytes/d.nodes/extentBytes, 1) * extentBytes
	left := int64(0)
	for share, n := range partsOf(p.Role) {
		d.shares[share] = limitBytes / parts * n
		if most, bounded := p.Most[share]; bounded && most < d.shares[share] {
			left += d.shares[share] - most
			d.shares[share] = most
		}
	}
	if _, stores := d.shares[Series]; stores {
		d.shares[Series] += left
	} else {
		d.shares[Spare] += left
	}
	return d
}

const (
	generationBytesMin = 16 << 20
	generationBytesMax = 128 << 20
)

// Bytes returns the bytes of a share, for all nodes of the process together.
func (d *Division) Bytes(s Share) int64 { return d.shares[s] }
