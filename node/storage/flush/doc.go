// Package flush turns a generation of the page log into segments: it sorts the pages by
// series, within bounded memory, and writes their samples into one segment for each partition of
// time.
//
// It publishes nothing and holds no lock: who flushes publishes what it returns, and knows
// which generation comes next. Writers and their layout of partitions serve whoever else writes
// samples in order of their series.
package flush
