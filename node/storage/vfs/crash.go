package vfs

import (
	"math/rand/v2"
	"path"
	"slices"
)

// CrashOptions say what survives a power cut besides what was synced.
type CrashOptions struct {
	Seed uint64
	// BlockPercent is the chance of each unsynced 4 KiB block to have reached the
	// disk. A file's length is the synced one or the present one, by chance, and
	// reaches at least to the end of the last block that survives.
	BlockPercent int
	// NamePercent is the chance of unsynced directory operations. 0 loses all,
	// 100 keeps all; in between, each directory keeps a first part of its
	// operations of random length, as the journal of ext4 keeps their order.
	NamePercent int
	// ReorderNames draws each directory operation on its own instead.
	ReorderNames bool
}

// CrashClone returns a new file system with what a power cut at this moment would
// leave. The present one goes on unharmed. Locks are gone in the clone.
func (m *MemFS) CrashClone(options CrashOptions) *MemFS {
	random := rand.New(rand.NewPCG(options.Seed, 0))
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make(map[string]*inode, len(m.mu.durable))
	for name, n := range m.mu.durable {
		names[name] = n
	}
	applyChanges(names, m.mu.pending, survivor(random, m.mu.pending, options))

	clone := NewMemFS()
	clone.mu.capacity = m.mu.capacity
	crashed := map[*inode]*inode{}
	for _, name := range sortedNames(names) {
		if !reachable(names, name) {
			continue
		}
		n := names[name]
		c := crashed[n]
		if c == nil {
			c = n.crash(random, options.BlockPercent)
			crashed[n] = c
			clone.mu.used += int64(len(c.data))
		}
		c.names++
		clone.mu.names[name], clone.mu.durable[name] = c, c
	}
	return clone
}

// Writeback makes each dirty block durable by chance, as the kernel does in the
// background. Nothing is promised by it: it lets a later CrashClone find versions
// of a block between the last Sync and now.
func (m *MemFS) Writeback(seed uint64, blockPercent int) {
	random := rand.New(rand.NewPCG(seed, 1))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range sortedNames(m.mu.names) {
		n := m.mu.names[name]
		if len(n.dirty) == 0 {
			continue
		}
		// The blocks stay dirty: what is on the disk now is not what is promised.
		n.synced = n.crash(random, blockPercent).data
	}
}

// LoseWriteback makes MemFS do to a file what Linux does when the disk refuses to
// take its dirty pages: the file goes on reading as written, the next Sync finds
// nothing to do and succeeds, and a power cut takes the data away. Only blocks
// that are written again have a chance.
func (m *MemFS) LoseWriteback(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.mu.names[path.Clean(name)]; n != nil {
		n.dirty = nil
	}
}

func sortedNames(names map[string]*inode) []string {
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

// survivor decides for each pending change, called in order, whether it survives.
func survivor(random *rand.Rand, pending []change, options CrashOptions) func(change) bool {
	chance := func() bool { return random.IntN(100) < options.NamePercent }
	if options.ReorderNames || options.NamePercent <= 0 || options.NamePercent >= 100 {
		return func(change) bool { return chance() }
	}
	count := map[string]int{}
	for _, c := range pending {
		count[path.Dir(c.names[0])]++
	}
	kept := map[string]int{}
	dirs := make([]string, 0, len(count))
	for dir := range count {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		kept[dir] = random.IntN(count[dir] + 1)
	}
	return func(c change) bool {
		dir := path.Dir(c.names[0])
		kept[dir]--
		return kept[dir] >= 0
	}
}

// reachable reports whether all directories above name exist.
func reachable(names map[string]*inode, name string) bool {
	for at := path.Dir(name); ; at = path.Dir(at) {
		if names[at] == nil || !names[at].dir {
			return false
		}
		if at == "." || at == "/" {
			return true
		}
	}
}

// crash returns the inode as the disk would have it. The random numbers are drawn
// in the order of blocks, so that a seed always returns the same.
func (n *inode) crash(random *rand.Rand, blockPercent int) *inode {
	if n.dir {
		return &inode{dir: true}
	}
	size := len(n.synced)
	if blockPercent > 0 && random.IntN(100) < blockPercent {
		size = len(n.data)
	}
	data := slices.Clone(n.synced)
	blocks := make([]int, 0, len(n.dirty))
	for b := range n.dirty {
		blocks = append(blocks, b)
	}
	slices.Sort(blocks)
	for _, b := range blocks {
		at := b * BlockBytes
		if random.IntN(100) >= blockPercent || at >= len(n.data) {
			continue
		}
		end := min(at+BlockBytes, len(n.data))
		data = append(data, make([]byte, max(end-len(data), 0))...)
		copy(data[at:], n.data[at:end])
		if stop := min(at+BlockBytes, len(data)); end < stop {
			clear(data[end:stop]) // a block is written whole, with zeros after the end
		}
		size = max(size, end)
	}
	if size <= len(data) {
		data = data[:size]
	} else {
		data = append(data, make([]byte, size-len(data))...)
	}
	return &inode{data: data, synced: slices.Clone(data)}
}
