package node

import "context"

// led is what limits.Limiter asks about the shards that the node leads.
type led struct{ node *Node }

// SeriesLed implements limits.Led.
func (l led) SeriesLed(database string) (int64, error) {
	return l.node.NamesOf(l.node.led()).Count(context.Background(), database)
}

// ShareLed implements limits.Led.
func (l led) ShareLed() float64 { return float64(len(l.node.led())) / float64(l.node.Shards()) }

// led returns the shards that this node leads.
func (n *Node) led() []uint16 {
	led := make([]uint16, 0, n.Shards())
	for shard := range uint16(n.Shards()) {
		if n.loop.groups[shard].leads.Load() {
			led = append(led, shard)
		}
	}
	return led
}
