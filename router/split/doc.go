// Package split finds the series of every point of a parse.Batch and encodes the
// points once, by shard, as the frame that the storage logs as it is.
//
//	s, err := split.New(split.Options{Shards: 128})
//	…
//	frame := s.Split(&batch, database, resolver, epoch)
//	outcome, err := writer.Write(ctx, frame)   // unless frame.Points is 0
//	s.Refused(&batch, outcome)                 // refusals become errors of the batch
//
// The series of a line is found
//
//  1. in the splitter's cache of raw line texts that it has met before,
//  2. else by its canonical key, from the Resolver,
//  3. else it is new: its key travels in the frame as a definition.
//
// From the first line on that the cache does not know, lines wait in a batch of
// bounded size: their keys are built, resolved together, so that the resolver
// waits for the memory of many series at once, and then all points are encoded
// in the order of the batch. Lines in the order of their creation are resolved
// as one run; else the first fields of all lines are, and each line's others
// behind its first. Lines that the cache knows do not wait when no other does.
//
// A cache that is full is kept as it is until many more lines found no room in it
// than it holds: with millions of series in random order it costs little, and
// with somewhat more lines than fit it serves those that it holds.
//
// A Splitter serves one goroutine at a time. Keep one per connection or in a
// pool: the cache fits any mix of lines, it works best for those it sees again.
package split
