package index

// shardFilter picks the series of some shards. It is for one reader.
type shardFilter struct {
	keys *keyFile
	set  []uint64 // nil: all
	// The block of shards that was found intact last, as chunk and number in it.
	chunk, block int
}

// inShards returns the filter of some shards; nil: of all.
func (f *keyFile) inShards(shards []uint16) shardFilter {
	filter := shardFilter{keys: f, chunk: -1}
	if shards == nil {
		return filter
	}
	filter.set = make([]uint64, 1<<16/64)
	for _, shard := range shards {
		filter.set[shard/64] |= 1 << (shard % 64)
	}
	return filter
}

// has reports whether a series is of the shards.
func (s *shardFilter) has(local uint32) bool { return s.set == nil || s.hasShardOf(local) }

func (s *shardFilter) hasShardOf(local uint32) bool {
	chunk, at := int(local>>offsetChunkBits), offsetsShardsAt+2*int(local%offsetChunk)
	if chunk != s.chunk || at/sealBlock != s.block {
		if sealed := s.keys.offsetsSealed(local); sealed != nil && !sealed.bytesIntact(at, at+2) {
			s.keys.heal(chunk, sealed)
		}
		s.chunk, s.block = chunk, at/sealBlock
	}
	shard := s.keys.shard(local)
	return s.set[shard/64]&(1<<(shard%64)) != 0
}
